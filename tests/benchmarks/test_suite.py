"""The suite's kernels: complete, alike in Numba and CUDA C++, right by NumPy. All of them are rehearsed by
``python -m benchmarks run --rehearse``; here a few are."""

import pytest

from benchmarks.suite import case as cases
from benchmarks.suite.rehearsing import rehearse


def test_every_file_is_a_case_and_every_case_has_its_files():
    files = {path.stem for path in cases.FOLDER.glob("*.py")}
    assert files == {path.stem for path in cases.FOLDER.glob("*.cu")} == set(cases.names())
    assert len(files) >= 24
    assert len(cases.BEYOND_LOOPS) >= 6
    assert set(cases.BEYOND_LOOPS) < files


@pytest.mark.parametrize("name", ["block_scan", "csr_spmv", "fnv_hash", "sobel"])
def test_numba_and_the_twin_leave_the_same_bits_and_what_numpy_does(name):
    rehearsed = rehearse(cases.load(name))
    assert rehearsed.differs == ""
    assert rehearsed.right, rehearsed
    assert bool(rehearsed.regions) == cases.load(name).has_loop


@pytest.mark.slow
@pytest.mark.parametrize("name", cases.names())
def test_each(name):
    rehearsed = rehearse(cases.load(name))
    assert rehearsed.differs == ""
    assert rehearsed.right, rehearsed
