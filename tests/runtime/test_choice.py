"""Which code a device gets, by a table: no GPU is asked."""

from __future__ import annotations

import pytest

from hybridcc.errors import InputError
from hybridcc.runtime import bundle
from hybridcc.runtime.choice import Choice, capability_of, choose

ALL = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a")
SHIPPED = ("sm_80", "sm_86", "sm_90")

TABLE = [
    # what there is, the device, what it gets
    (ALL, (8, 0), ("cubin", "sm_80", True)),
    (ALL, (8, 6), ("cubin", "sm_86", True)),
    (ALL, (8, 7), ("cubin", "sm_86", False)),
    (ALL, (8, 9), ("cubin", "sm_89", True)),
    (ALL, (9, 0), ("cubin", "sm_90a", True)),
    (ALL, (10, 0), ("ptx", "sm_90", False)),
    (ALL, (12, 1), ("ptx", "sm_90", False)),
    (ALL, (7, 5), None),
    (SHIPPED, (8, 9), ("cubin", "sm_86", False)),
    (SHIPPED, (9, 0), ("cubin", "sm_90", True)),
    (SHIPPED, (10, 3), ("ptx", "sm_90", False)),
    (("sm_86",), (8, 0), None),  # a higher minor capability than the device's
    (("sm_80",), (9, 0), ("ptx", "sm_80", False)),  # another major one: only its PTX runs
    (("sm_90a",), (9, 0), ("cubin", "sm_90a", True)),
    (("sm_90a",), (10, 0), None),
    (("sm_100", "sm_90"), (10, 3), ("cubin", "sm_100", False)),
    (("sm_100a", "sm_90"), (10, 3), ("ptx", "sm_90", False)),
    (("sm_100f", "sm_100", "sm_90"), (10, 0), ("cubin", "sm_100f", True)),
    (("sm_100f", "sm_90"), (10, 3), ("cubin", "sm_100f", False)),
    (("sm_103f",), (10, 0), None),
    (("sm_100f",), (12, 0), None),  # another family, also for its PTX
    (("compute_90", "gfx90a", ""), (9, 0), None),
    ((), (9, 0), None),
]


@pytest.mark.parametrize(("names", "device", "expected"), TABLE)
def test_the_table(names, device, expected):
    wanted = None if expected is None else Choice(*expected)
    assert choose(names, names, device) == wanted
    assert choose(reversed(names), names[::-1], device) == wanted


def test_cubins_alone_do_not_run_on_a_newer_major_capability():
    assert choose(ALL, (), (10, 0)) is None
    assert choose((), ALL, (9, 0)) == Choice("ptx", "sm_90a", True)


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("sm_90", ((9, 0), "")), ("sm_90a", ((9, 0), "a")), ("sm_121", ((12, 1), "")), ("sm_100f", ((10, 0), "f")),
        ("sm_9", None),
    ],
)
def test_names(name, parsed):
    assert capability_of(name) == parsed


@pytest.fixture
def built(tmp_path):
    files = {f"selected.{arch}.cubin": f"selected {arch}".encode() for arch in SHIPPED}
    files |= {f"baseline.{arch}.cubin": f"baseline {arch}".encode() for arch in SHIPPED}
    files |= {f"baseline.{arch}.ptx": f"ptx {arch}".encode() for arch in SHIPPED}
    manifest = {"kernel": {"name": "k"}, "architectures": [{"arch": arch} for arch in SHIPPED]}
    return bundle.write(tmp_path / "k", manifest, files)


def test_a_bundle_gives_a_device_its_code(built):
    assert built.for_device((8, 9)) == (Choice("cubin", "sm_86", False), b"selected sm_86")
    assert built.for_device((8, 9), "baseline") == (Choice("cubin", "sm_86", False), b"baseline sm_86")
    assert built.for_device((12, 0)) == (Choice("ptx", "sm_90", False), b"ptx sm_90")


def test_a_bundle_that_has_nothing_for_a_device_says_what_it_has(built):
    with pytest.raises(InputError, match=r"holds nothing that runs on a device of capability 7\.5 .*sm_80, sm_86") as e:
        built.for_device((7, 5))
    assert "--arch" in e.value.next_step
