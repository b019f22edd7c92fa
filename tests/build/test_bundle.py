"""A bundle is whole or not there, equal when built equal, and refuses what was altered."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridcc.errors import InputError, OutputError
from hybridcc.runtime import bundle
from hybridcc.runtime.folder import check_writable

MANIFEST = {"kernel": {"name": "conv1d"}, "architectures": [{"arch": "sm_80"}]}


def files(version: int) -> dict[str, bytes]:
    return {f"{name}.sm_80.cubin": f"{name} {version} ".encode() * 2000 for name in ("baseline", "selected", "region")}


def test_what_is_written_is_read(tmp_path):
    bundle.write(tmp_path / "out" / "conv1d", MANIFEST, files(1), {"seconds": 3})
    found = bundle.load(tmp_path / "out" / "conv1d")
    assert found.name == "conv1d"
    assert found.architectures == ("sm_80",)
    assert found.cubin("sm_80") == files(1)["selected.sm_80.cubin"]
    with pytest.raises(InputError, match="holds no sm_90"):
        found.entry("sm_90")


def test_equal_builds_are_equal_bytes_but_for_the_log(tmp_path):
    for name in ("a", "b"):
        bundle.write(tmp_path / name, MANIFEST, files(1), {"folder": name})
    read = [{p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("a", "b")]
    assert read[0].pop("log.json") != read[1].pop("log.json")
    assert read[0] == read[1]


def test_a_new_bundle_takes_the_place_of_the_old_one_whole(tmp_path):
    bundle.write(tmp_path / "k", MANIFEST, {**files(1), "old.ptx": b""})
    bundle.write(tmp_path / "k", MANIFEST, files(2))
    assert not (tmp_path / "k" / "old.ptx").exists()
    assert bundle.load(tmp_path / "k").cubin("sm_80") == files(2)["selected.sm_80.cubin"]
    assert [p.name for p in tmp_path.iterdir()] == ["k"]


def test_an_altered_file_is_refused(tmp_path):
    bundle.write(tmp_path / "k", MANIFEST, files(1))
    (tmp_path / "k" / "selected.sm_80.cubin").write_bytes(b"other")
    with pytest.raises(InputError, match="not the file that was built"):
        bundle.load(tmp_path / "k").cubin("sm_80")


@pytest.mark.parametrize("text", ["", "[]", '{"schema_version": 99}', "{"])
def test_other_manifests_are_refused(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(InputError) as error:
        bundle.load(tmp_path)
    assert error.value.next_step


def test_a_kill_at_any_instant_leaves_a_whole_bundle(tmp_path):
    """A child rewrites one bundle without end and is killed; what is there must always load and hash right."""
    target = tmp_path / "k"
    child = (
        "import itertools, sys\nfrom pathlib import Path\nfrom hybridcc.runtime import bundle\n"
        f"manifest = {MANIFEST!r}\n"
        "names = ('baseline', 'selected', 'region')\n"
        "for n in itertools.count():\n"
        "    data = {f'{m}.sm_80.cubin': f'{m} {n} '.encode() * 2000 for m in names}\n"
        "    bundle.write(Path(sys.argv[1]), manifest, data, {'n': n})\n"
        "    if n == 0: print('ready', flush=True)\n"
    )
    for trial in range(6):
        process = subprocess.Popen([sys.executable, "-c", child, str(target)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.003 * trial)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        found = bundle.load(target)
        versions = {re.findall(rb"\d+", found.read(name))[-1] for name in found.manifest["files"] if "cubin" in name}
        assert len(versions) == 1
    bundle.write(target, MANIFEST, files(1))
    assert [p.name for p in tmp_path.iterdir()] == ["k"]  # what killed processes left was swept away


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        bundle.write(tmp_path / "file", MANIFEST, files(1))
    with pytest.raises(OutputError) as error:
        bundle.write(tmp_path / "file" / "below", MANIFEST, files(1))
    assert "-o" in error.value.next_step
    with pytest.raises(OutputError):
        check_writable(tmp_path / "file")
    if os.geteuid() != 0:  # root may write anywhere
        (tmp_path / "locked").mkdir(mode=0o500)
        with pytest.raises(OutputError):
            check_writable(tmp_path / "locked")
    check_writable(tmp_path / "fine")
    assert list((tmp_path / "fine").iterdir()) == []


KEPT = {
    "no bundle at all": ["notes.txt"],
    "files further down": ["package/module.py"],
    "a file beside a bundle's": ["manifest.json", "notes.txt"],
    "a manifest of something else": ["manifest.json"],
}


@pytest.mark.parametrize("names", KEPT.values(), ids=KEPT)
def test_no_build_takes_the_place_of_other_files(tmp_path, names):
    target = tmp_path / "k"
    if len(names) > 1:
        bundle.write(target, MANIFEST, files(1))
    for name in names:
        if not (target / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_text("precious")
    before = {p: p.read_bytes() for p in target.rglob("*") if p.is_file()}
    with pytest.raises(OutputError, match="no build wrote") as error:
        bundle.write(target, MANIFEST, files(2))
    assert "-o" in error.value.next_step
    assert {p: p.read_bytes() for p in target.rglob("*") if p.is_file()} == before


def test_only_what_killed_builds_left_is_swept_away(tmp_path):
    beside = [tmp_path / name for name in (".k.1999.backup", ".k.999999999", ".probe", "k.hybridcc-1")]
    for folder in beside:
        folder.mkdir()
        (folder / "notes").write_text("precious")
    check_writable(tmp_path)
    bundle.write(tmp_path / "k", MANIFEST, files(1))
    assert {p.name for p in tmp_path.iterdir()} == {"k", *(p.name for p in beside)}
    assert all((folder / "notes").read_text() == "precious" for folder in beside)


def test_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "k").mkdir()
    bundle.write(tmp_path / "k", MANIFEST, files(1))
    assert bundle.load(tmp_path / "k").name == "conv1d"


def test_manifest_is_stable_json(tmp_path):
    bundle.write(tmp_path / "k", MANIFEST, files(1))
    text = (tmp_path / "k" / "manifest.json").read_text()
    assert json.dumps(json.loads(text), indent=1, sort_keys=True) + "\n" == text


@given(st.text(min_size=1), st.text(min_size=1))
def test_every_kernel_has_a_folder_of_its_own(one, other):
    names = [bundle.folder_name(name) for name in (one, other, one * 300)]
    for name in names:
        assert 0 < len(name) <= 80
        assert name.isascii()
        assert not set("/\0") & set(name)
        assert name not in (".", "..")
    assert (names[0] == names[1]) == (one == other)
    assert bundle.folder_name("conv1d") == "conv1d"


def test_a_mangled_name_of_any_length_is_written(tmp_path):
    name = "_ZN" + "8__main__" * 60
    bundle.write(tmp_path / bundle.folder_name(name), MANIFEST, files(1))
    assert bundle.load(tmp_path / bundle.folder_name(name)).name == "conv1d"
