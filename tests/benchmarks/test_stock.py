"""Stock Numba's machine code, made without a GPU."""

from benchmarks.suite import case as cases
from benchmarks.suite import stock
from benchmarks.suite.outputs import same_code


def test_the_same_kernel_gives_the_same_code_and_fastmath_other_code():
    kernel = cases.load("nbody").kernel
    types = kernel.signatures[0]
    first, second = (stock.contender("stock", kernel, types, "sm_90") for _ in range(2))
    assert first.entry != second.entry  # Numba counts the functions that it compiles
    assert same_code(first, second)
    assert not first.free
    fast = stock.contender("fast", kernel, types, "sm_90", fastmath=True)
    assert fast.free
    assert not same_code(first, fast)
