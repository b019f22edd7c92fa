"""The region's own text as its rewrite: it splices, assembles, comes back out unchanged, and changes nothing else."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from hybridcc.passes.kernel import Kernel
from hybridcc.passes.regions import Region
from hybridcc.passes.regions.find import find_in
from hybridcc.passes.splice import extract, splice, splice_all
from hybridcc.ptx import Module, parse
from hybridcc.ptx.nodes import Directive
from hybridcc.runtime.assemble import assemble
from tests.regions import kernels
from tests.regions.kernels import SIGNATURES, compiled

CORPUS = Path(__file__).parents[1] / "corpus"
PRODUCERS = ("numba-cuda", "numba-cuda-mlir", "nvcc-13", "clang", "triton")
FILES = sorted(p for producer in PRODUCERS for p in (CORPUS / producer).glob("*.ptx"))
LOOPS = [f for f in SIGNATURES if f is not kernels.no_loop]


@cache
def regions_of(path: Path) -> tuple[Module, tuple[Region, ...]]:
    """Every region of a file that may be rewritten, and the file."""
    text = path.read_text(encoding="ascii", errors="replace")
    module = parse(text, path.name)
    found: list[Region] = []
    for function in module.entries:
        kernel = Kernel(path.stem, function.name, text, "sm_90", "corpus")
        found += [r for r in find_in(module, function, kernel) if r.eligible]
    return module, tuple(found)


def target_of(module: Module) -> str:
    return next(
        i.arguments.split(",")[0].strip() for i in module.items if isinstance(i, Directive) and i.name == ".target"
    )


def same_words(text: str) -> list[str]:
    return text.split()


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_identity_on_the_corpus(path: Path):
    module, regions = regions_of(path)
    for region in regions:
        candidate = splice(module, region, region.text)
        (again,) = extract(candidate)
        assert same_words(again) == same_words(region.text)
        assert splice(module, region, again).module == candidate.module
        assert parse(candidate.text) == candidate.module
        assert candidate.rewritten
        assemble(candidate.text, target_of(module), "ptxas", name=path.name)


def test_the_corpus_holds_regions_to_test():
    assert sum(len(regions_of(path)[1]) for path in FILES) >= 12


@pytest.mark.parametrize("function", LOOPS)
def test_identity_assembles(function):
    kernel = compiled(function)
    module = parse(kernel.ptx)
    for region in find_in(module, module.entries[0], kernel):
        assemble(splice(module, region, region.text).text, "sm_90", "ptxas")


@pytest.mark.parametrize(
    "function", [kernels.conv1d, kernels.colsum, kernels.matmul_naive, kernels.nbody, kernels.matmul_tiled]
)
def test_identity_gives_the_same_machine_code(function):
    """Fresh names, a scope and a label on each block cost nothing (registers that the region shares with the code
    round it for another purpose can: there the new names change what ptxas sees)."""
    kernel = compiled(function)
    module = parse(kernel.ptx)
    (region,) = find_in(module, module.entries[0], kernel)
    made = assemble(splice(module, region, region.text).text, "sm_90", "ptxas")
    assert made.bytes == assemble(str(module), "sm_90", "ptxas").bytes


def test_rewrites_of_disjoint_regions_compose():
    kernel = compiled(kernels.two_loops)
    module = parse(kernel.ptx)
    first, second = find_in(module, module.entries[0], kernel)
    together = splice_all(module, [(second, second.text), (first, first.text)])
    assert [same_words(t) for t in extract(together)] == [same_words(r.text) for r in (first, second)]
    assert not set(together.parts[0].new_names.values()) & set(together.parts[1].new_names.values())
    assert len(set(together.rewritten)) == len(together.rewritten)
    assemble(together.text, "sm_90", "ptxas")


def test_a_second_splice_into_a_candidate_finds_names_of_its_own():
    """A rewrite that a compiler emitted may itself be the kernel of a later run."""
    kernel = compiled(kernels.conv1d)
    module = parse(kernel.ptx)
    (region,) = find_in(module, module.entries[0], kernel)
    once = splice(module, region, region.text)
    (again,) = find_in(once.module, once.module.entries[0], kernel)
    assert again.key == region.key
    twice = splice(once.module, again, again.text)
    assert not set(once.parts[0].new_names.values()) & set(twice.parts[0].new_names.values())
    assemble(twice.text, "sm_90", "ptxas")
