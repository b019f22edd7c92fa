"""Real kernels, right rewrites: proved, with a certificate that the other solver accepts."""

from __future__ import annotations

import json

import pytest
from rewrites import FACTS, GUARDED, base, candidate, region_text, spliced_in

from hybridcc.passes.verdict import Proved, Unknown
from hybridcc.passes.verify import proving

QUICK = [
    ("saxpy", "saxpy", 1),
    ("stencil", "stencil", 1),
    ("warp_sum", "warp_sum", 1),
    ("reduce_shared", "reduce_shared", 1),
    ("colsum", "colsum", 4),
    ("conv1d", "conv1d", 1),
]
DEEP = [
    ("turns", "turns", 1),
    ("turns", "turns", 4),
    ("turns", "turns", 8),
    ("reduce_shared", "reduce_shared_rolled", 1),
    ("reduce_shared", "reduce_shared_rolled", 2),
    ("gridstride", "gridstride", 1),
    ("gridstride", "gridstride", 4),
    ("mandelbrot", "mandelbrot", 4),
    ("prefix", "prefix_forwarded", 1),
    ("colsum", "colsum", 1),
    ("colsum", "colsum", 8),
    ("conv1d", "conv1d", 4),
    ("conv1d", "conv1d", 8),
    ("matmul_naive", "matmul_naive", 1),
    ("matmul_naive", "matmul_naive", 4),
    ("matmul_naive", "matmul_naive", 8),
    ("nbody", "nbody", 1),
    ("nbody", "nbody", 4),
    ("dot_rows", "dot_rows", 1),
    ("dot_rows", "dot_rows", 4),
    ("dot_rows", "dot_rows", 8),
    ("dot_rows", "dot_rows_vector", 1),
    ("dot_rows", "dot_rows_pipelined", 1),
    ("mandelbrot", "mandelbrot", 1),
    ("prefix", "prefix", 1),
    ("prefix", "prefix", 4),
    ("prefix", "prefix_forwarded", 4),
]
DEEP_SEEDS = range(1, 11)


def prove(kernel: str, new: str, *, seed: int = 1, facts: bool = True):
    given = FACTS[kernel] if facts else ()
    return proving.run(proving.Task(base(kernel), new, kernel, given, (seed,)))


@pytest.mark.parametrize(("kernel", "rewrite", "unroll"), QUICK)
def test_a_right_rewrite_is_proved(kernel: str, rewrite: str, unroll: int) -> None:
    new = candidate(rewrite, unroll)
    verdict = prove(kernel, new)
    assert isinstance(verdict, Proved), verdict
    again = proving.recheck(verdict.certificate, base(kernel), new, kernel, FACTS[kernel], backend_name="bitwuzla")
    assert isinstance(again, Proved), again


@pytest.mark.slow
@pytest.mark.parametrize("seed", DEEP_SEEDS)
@pytest.mark.parametrize(("kernel", "rewrite", "unroll"), [*QUICK, *DEEP])
def test_a_proof_does_not_depend_on_the_seed(kernel: str, rewrite: str, unroll: int, seed: int) -> None:
    verdict = prove(kernel, candidate(rewrite, unroll), seed=seed)
    assert isinstance(verdict, Proved), verdict


def test_a_guarded_vector_form_is_proved_through_the_splicer() -> None:
    new = spliced_in("saxpy_rows", region_text("saxpy_rows"))
    verdict = prove("saxpy_rows", new)
    assert isinstance(verdict, Proved), verdict
    again = proving.recheck(
        verdict.certificate, base("saxpy_rows"), new, "saxpy_rows", FACTS["saxpy_rows"], backend_name="bitwuzla"
    )
    assert isinstance(again, Proved), again


@pytest.mark.slow
@pytest.mark.parametrize("seed", DEEP_SEEDS)
@pytest.mark.parametrize("kernel", GUARDED)
def test_guarded_forms_are_proved_for_both_of_numbas_compilers(kernel: str, seed: int) -> None:
    verdict = prove(kernel, spliced_in(kernel, region_text(kernel)), seed=seed)
    assert isinstance(verdict, Proved), verdict


@pytest.mark.parametrize("kernel", ["saxpy", "stencil", "mandelbrot", "reduce_shared"])
def test_a_kernel_equals_itself(kernel: str) -> None:
    assert isinstance(prove(kernel, base(kernel)), Proved)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", sorted(FACTS))
def test_every_kernel_equals_itself(kernel: str) -> None:
    assert isinstance(prove(kernel, base(kernel)), Proved)


def test_z3_accepts_what_bitwuzla_proved() -> None:
    new = candidate("saxpy")
    verdict = prove("saxpy", new)
    assert isinstance(verdict, Proved)
    assert json.loads(verdict.certificate)["solver"].startswith("bitwuzla")
    again = proving.recheck(verdict.certificate, base("saxpy"), new, "saxpy", FACTS["saxpy"])
    assert isinstance(again, Proved)
    assert json.loads(again.certificate)["solver"].startswith("z3")


def test_the_facts_that_carry_a_proof_are_named_and_needed() -> None:
    """An extent below zero would be a large unsigned number: only the fact makes the unsigned guard right."""
    new = candidate("colsum", 1).replace("setp.lt.s64 %q2", "setp.lt.u64 %q2")
    verdict = prove("colsum", new)
    assert isinstance(verdict, Proved), verdict
    assert any("frontend" in fact for fact in json.loads(verdict.certificate)["facts"])
    refused = proving.recheck(verdict.certificate, base("colsum"), new, "colsum", (), backend_name="bitwuzla")
    assert isinstance(refused, Unknown)
    assert not isinstance(prove("colsum", new, facts=False), Proved)


def test_the_child_process_says_the_same() -> None:
    verdict = proving.prove(base("saxpy"), candidate("saxpy"), "saxpy", FACTS["saxpy"])
    assert isinstance(verdict, Proved)
