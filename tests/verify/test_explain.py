"""What is said about a rewrite that was refuted: the thread, what it enters the region with, and what must come out."""

from __future__ import annotations

import numpy as np
import pytest

from hybridcc import sources
from hybridcc.asking import regions_of
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.regions import Region
from hybridcc.passes.splice import splice
from hybridcc.passes.verify.explain import END_LABEL, explain
from hybridcc.passes.verify.launch import Launch
from hybridcc.ptx import parse

ROWS = """
from numba import cuda, float32

def rows(x, y, s):
    i = cuda.grid(1)
    if i < x.shape[0]:
        t = float32(1)
        for k in range(x.shape[1]):
            y[i, k] = x[i, k] * float32(2)
            t = t + x[i, k]
        s[i] = t
"""
SIGNATURE = "rows(float32[:,::1], float32[:,::1], float32[::1])"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Kernel:
    path = tmp_path_factory.mktemp("explain") / "rows.py"
    path.write_text(ROWS)
    (source,) = sources.load(str(path), ["sm_90"], signature=SIGNATURE)
    return source.kernels[0]


@pytest.fixture(scope="module")
def region(kernel: Kernel) -> Region:
    (found,) = [r for r in regions_of(kernel) if r.eligible]
    return found


@pytest.fixture(scope="module")
def launch() -> Launch:
    """Two rows of three: the remainder loop alone runs, three times a thread."""
    x = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    return Launch((1, 1, 1), (4, 1, 1), (x, np.zeros_like(x), np.zeros(2, np.float32)))


def told(kernel: Kernel, region: Region, launch: Launch, text: str) -> str:
    return explain(kernel, region, splice(parse(kernel.ptx), region, text), launch)


def last(text: str, opcode: str) -> str:
    """The last line of the region's text with this opcode."""
    return [line for line in text.splitlines() if line.strip().startswith(opcode)][-1]


def test_nothing_is_said_of_the_original(kernel: Kernel, region: Region, launch: Launch) -> None:
    assert told(kernel, region, launch, region.text) == ""


def test_a_wrong_value_out_and_what_it_must_be(kernel: Kernel, region: Region, launch: Launch) -> None:
    (out,) = [k for k, port in enumerate(region.live_out) if port.type == ".f32"]
    text = told(kernel, region, launch, f"{region.text}  add.f32 %out{out}, %out{out}, 0f3F800000;\n")
    assert text.startswith("thread (0, 0, 0) of block (0, 0, 0) enters the region with\n")
    assert f"%out{out} must be 0x40e00000 (7.0); the rewrite leaves 0x41000000 (8.0)" in text
    shape = next(k for k, port in enumerate(region.live_in) if "x.shape[1]" in port.origin_note)
    assert f"%in{shape} = 0x0000000000000003 (3)" in text
    assert "store number" not in text


def test_the_first_store_that_differs(kernel: Kernel, region: Region, launch: Launch) -> None:
    store = last(region.text, "st.global")
    value = store.rpartition(", ")[2].rstrip(";")
    doubled = f"  add.f32 {value}, {value}, {value};\n{store}"
    text = told(kernel, region, launch, region.text.replace(store, doubled))
    assert "store number 1 in it must be 0x40000000 to byte 0 of y; the rewrite makes 0x40800000 to byte 0 of y" in text


def test_a_store_too_few_and_one_too_many(kernel: Kernel, region: Region, launch: Launch) -> None:
    store = last(region.text, "st.global")
    (y,) = [k for k, port in enumerate(region.live_in) if port.origin_note.startswith("data pointer of y")]
    also = f"{region.text}  st.global.f32 [%in{y}+4], 0f3F800000;\n"
    assert "must make 3 stores; the rewrite also makes 0x3f800000 to byte 4 of y" in told(kernel, region, launch, also)
    skipped = region.text.replace(
        store, f"  .reg .pred %never;\n  setp.eq.s64 %never, 0, 1;\n  @%never {store.strip()}"
    )
    assert "must make 3 stores; the rewrite makes 0: 0x40000000 to byte 0 of y is missing" in told(
        kernel, region, launch, skipped
    )


def test_a_fault_in_the_rewrite(kernel: Kernel, region: Region, launch: Launch) -> None:
    load = last(region.text, "ld.global")
    text = told(kernel, region, launch, region.text.replace(load, load.replace("];", "+4096];")))
    assert text.startswith("thread (0, 0, 0) of block (0, 0, 0) enters the region with\n")
    assert "the original leaves\n" in text
    assert "(7.0)" in text


def test_the_lowest_thread_that_differs_is_the_one_told_of(kernel: Kernel, region: Region) -> None:
    """In a later block, where an earlier slice of the launch was right."""
    (out,) = [k for k, port in enumerate(region.live_out) if port.type == ".f32"]
    x = np.zeros((70, 2), np.float32)
    x[66, 1] = 5
    launch = Launch((3, 1, 1), (32, 1, 1), (x, np.zeros_like(x), np.zeros(70, np.float32)))
    text = told(
        kernel,
        region,
        launch,
        f"{region.text}  .reg .pred %big;\n  setp.gt.f32 %big, %out{out}, 0f40000000;\n"
        f"  selp.f32 %out{out}, 0f00000000, %out{out}, %big;\n",
    )
    assert text.startswith("thread (2, 0, 0) of block (2, 0, 0) enters the region")
    assert f"%out{out} must be 0x40c00000 (6.0); the rewrite leaves 0x00000000 (0.0)" in text


def test_the_mark_is_no_name_of_any_kernel(kernel: Kernel) -> None:
    assert END_LABEL not in kernel.ptx

