"""The kernels of numba-cuda-mlir and right rewrites of them: proved."""

from __future__ import annotations

import pytest
from rewrites_mlir import FACTS, LOOPS, base, candidate

from hybridcc.passes.verdict import Proved
from hybridcc.passes.verify import proving

QUICK = [("saxpy", 1), ("stencil", 1), ("reduce_shared", 1), ("mandelbrot", 4)]
DEEP = [(kernel, unroll) for kernel in LOOPS for unroll in (1, 4)]
SEEDS = range(1, 11)


def prove(kernel: str, new: str, *, seed: int = 1, facts: bool = True):
    return proving.run(proving.Task(base(kernel), new, kernel, FACTS[kernel] if facts else (), (seed,)))


@pytest.mark.parametrize(("kernel", "unroll"), QUICK)
def test_a_right_rewrite_is_proved(kernel: str, unroll: int) -> None:
    new = candidate(kernel, unroll)
    verdict = prove(kernel, new)
    assert isinstance(verdict, Proved), verdict
    again = proving.recheck(verdict.certificate, base(kernel), new, kernel, FACTS[kernel], backend_name="bitwuzla")
    assert isinstance(again, Proved), again


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("kernel", "unroll"), [*QUICK, *DEEP])
def test_a_proof_does_not_depend_on_the_seed(kernel: str, unroll: int, seed: int) -> None:
    verdict = prove(kernel, candidate(kernel, unroll), seed=seed)
    assert isinstance(verdict, Proved), verdict


@pytest.mark.parametrize("kernel", ["saxpy", "stencil"])
def test_the_facts_of_the_frontend_are_needed(kernel: str) -> None:
    """Offsets and last strides are parameters: only the array's type says that they are 0 and 1."""
    assert not isinstance(prove(kernel, candidate(kernel), facts=False), Proved)


def test_the_wraparound_of_a_thread_number_is_needed() -> None:
    """It is computed in 32 bits and may be negative, which the extent does not exclude."""
    new = candidate("saxpy").replace("and.b64 %a0, %a0, %rd4;", "mov.u64 %a0, 0;")
    assert new != candidate("saxpy")
    assert not isinstance(prove("saxpy", new), Proved)
