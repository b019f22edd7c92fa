"""hybridcc.verify: what is refuted was run, what a clock decided is not kept, the checker needs no search."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from rewrites import FACTS, base, candidate
from test_small import LOOP, TRAPS, kernel

import hybridcc
from hybridcc.errors import InputError
from hybridcc.passes.facts import Fact, Origin, Parameter, Relation
from hybridcc.passes.verdict import Proved, Refuted, Unknown
from hybridcc.passes.verify import proving
from hybridcc.verifying import judge

PROOF = Path(proving.__file__).resolve().parent / "proof"
SEARCH = ("alignment", "attempt", "guess", "interpretation", "sampling", "search", "trace", "two_adic")


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("x - y for y - x", ""),
        ("a dropped wraparound of a parameter", "from a failed proof"),
        ("signed division is no shift", "from a failed proof"),
        ("a vector store of unknown alignment", "from a failed proof"),
    ],
)
def test_refuted_is_a_launch_that_was_run(name: str, family: str) -> None:
    """The random families miss the last three; the prover's own model shows them."""
    old, new = TRAPS[name]
    found = judge(kernel(old), kernel(new), "k")
    assert isinstance(found.verdict, Refuted), found.verdict
    assert found.launch is not None
    assert not family or found.launch.family == family
    from hybridcc.passes.verify.refuting import replays

    assert replays(found.kernel, found.candidate, found.launch)
    assert not replays(found.kernel, found.kernel.ptx, found.launch)


def test_a_launch_that_breaks_a_promise_refutes_nothing() -> None:
    old, new = kernel(LOOP), kernel(LOOP.replace("setp.lt.s64 %p0", "setp.lt.u64 %p0"))
    n = Parameter(2, "n")
    facts = [Fact(n, r, v, Origin.DECLARED) for r, v in ((Relation.GE, 0), (Relation.LT, 1 << 62))]
    assert isinstance(hybridcc.verify(old, new, "k", facts), Proved)
    always = kernel(LOOP.replace("@%p0 bra $X;", ""))
    assert isinstance(hybridcc.verify(old, always, "k", facts), Refuted)
    positive = [Fact(n, Relation.GE, 1, Origin.DECLARED), facts[1]]
    assert isinstance(hybridcc.verify(old, always, "k", positive), Proved)


def test_one_region_and_its_rewrite() -> None:
    from hybridcc.frontends.ptx_file import from_text
    from hybridcc.passes.regions import find

    (whole,) = from_text(base("colsum"), "colsum", name="colsum.ptx")
    region = next(r for r in find(whole) if r.eligible)
    assert isinstance(hybridcc.verify(base("colsum"), region.text, region=region.id, facts=FACTS["colsum"]), Proved)
    assert region.text.count("add.f32") >= 1
    wrong = region.text.replace("add.f32", "sub.f32", 1)
    verdict = hybridcc.verify(base("colsum"), wrong, region=region.id, facts=FACTS["colsum"])
    assert isinstance(verdict, Refuted), verdict
    with pytest.raises(InputError, match="no region"):
        hybridcc.verify(base("colsum"), region.text, region="nowhere")


# --- backstops ------------------------------------------------------------------------------------------


def test_what_a_clock_decides_says_so_and_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proving, "_SELF", {})
    monkeypatch.setattr(proving, "SECONDS", 0.05)
    late = proving.prove(base("saxpy"), candidate("saxpy"), "saxpy", FACTS["saxpy"])
    assert isinstance(late, Unknown)
    assert late.reason.startswith(proving.IRREPRODUCIBLE)  # also where it was the baseline's own proof
    assert not proving.is_reproducible(late)
    monkeypatch.undo()
    assert isinstance(proving.prove(base("saxpy"), candidate("saxpy"), "saxpy", FACTS["saxpy"]), Proved)


def test_too_little_memory_is_irreproducible_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proving, "_SELF", {})
    monkeypatch.setattr(proving, "MEMORY_BYTES", 96 << 20)
    starved = proving.prove(base("colsum"), candidate("colsum"), "colsum", FACTS["colsum"])
    assert isinstance(starved, Unknown)
    assert not proving.is_reproducible(starved), starved
    assert proving._SELF == {}


def test_a_counted_budget_gives_one_verdict_however_slow_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same count of queries, and no clock in the reason."""
    task = proving.Task(base("colsum"), candidate("colsum"), "colsum", FACTS["colsum"], (1,), queries=40)
    first = proving.run(task)
    from hybridcc.passes.verify.proof.solver import Solver

    check, slowed = Solver.check, []

    def slow(self: Solver, *conditions: Any, **options: Any) -> Any:
        slowed.append(sum(range(20_000)))
        return check(self, *conditions, **options)

    monkeypatch.setattr(Solver, "check", slow)
    assert proving.run(task) == first
    assert len(slowed) == 41
    assert isinstance(first, Unknown)
    assert first.reason == "budget: 40 solver queries"
    assert proving.is_reproducible(first)


# --- search and checker apart ---------------------------------------------------------------------------


def test_the_checker_reaches_no_search() -> None:
    """By its imports, those inside functions included."""
    waiting, reached = [PROOF / "checker.py"], set[Path]()
    while waiting:
        path = waiting.pop()
        if path in reached or not path.is_file():
            continue
        reached.add(path)
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Import(names):
                    waiting += [file for alias in names for file in _files(alias.name)]
                case ast.ImportFrom(module=str(module), names=names):
                    waiting += [file for alias in names for file in _files(f"{module}.{alias.name}") + _files(module)]
                case _:
                    pass
    assert PROOF / "terms.py" in reached
    assert PROOF.parents[2] / "hybridcc" / "ptx" / "isa.py" in {path.absolute() for path in reached}
    assert not reached & {PROOF / f"{name}.py" for name in SEARCH}


def _files(module: str) -> list[Path]:
    """Where a module of hybridcc would lie, as a file and as a package."""
    if not module.startswith("hybridcc."):
        return []
    within = module.split(".")[1:]
    root = PROOF.parents[2] if within[0] in ("passes", "frontends", "runtime") else PROOF.parents[2] / "hybridcc"
    return [root.joinpath(*within).with_suffix(".py"), root.joinpath(*within, "__init__.py")]


def test_recheck_runs_where_no_search_can_be_imported(tmp_path: Path) -> None:
    assert all(find_spec(f"hybridcc.passes.verify.proof.{name}") for name in SEARCH)
    proof = proving.run(proving.Task(base("saxpy"), candidate("saxpy"), "saxpy", FACTS["saxpy"], (1,)))
    assert isinstance(proof, Proved)
    for name, text in (("old.ptx", base("saxpy")), ("new.ptx", candidate("saxpy")), ("c.json", proof.certificate)):
        (tmp_path / name).write_text(text)
    facts = [{"left": {"parameter": f.left.index}, "relation": f.relation, "right": f.right} for f in FACTS["saxpy"]]  # type: ignore[union-attr]
    (tmp_path / "facts.json").write_text(json.dumps(facts))
    program = (
        "import sys\n"
        f"sys.modules.update({{'hybridcc.passes.verify.proof.' + n: None for n in {SEARCH!r}}})\n"
        "from hybridcc.cli import main\nmain()\n"
    )
    arguments = ["verify", "old.ptx", "new.ptx", "--facts", "facts.json", "--json"]
    root = str(Path(hybridcc.__file__).parents[1])
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r})\n{program}", *arguments]
    again = subprocess.run([*command, "--recheck", "c.json"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert again.returncode == 0, again.stderr
    told = json.loads(again.stdout)
    assert told["solver"].startswith("z3")
    assert told["alignment"][0]["node"] == "entry"
