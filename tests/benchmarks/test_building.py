"""What races for a case, made without a GPU: judged answers, Numba's code, the twin."""

from benchmarks.suite import case as cases
from benchmarks.suite.building import build
from benchmarks.suite.rehearsing import misfits


def test_a_kernel_without_answers_has_all_but_rewrites():
    case = cases.load("rgb_to_gray")
    built = build(case, "sm_90", rewriter="none")
    assert built.variants == ()
    assert (built.answers, built.body) == (0, True)
    assert built.stock.cubin != built.fastmath.cubin
    assert built.twin.entry == "rgb_to_gray"
    assert misfits(case, built) == ()
