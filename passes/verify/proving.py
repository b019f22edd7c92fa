"""``prove`` and ``recheck``: is a candidate equal to its baseline for every input?

Budgets are counted (queries, path pairs, steps), so a verdict is the same on a slow machine. Wall clock and
memory are backstops of the child process that does the work; a verdict they cause says so and must not be kept.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from hybridcc.errors import InputError
from hybridcc.passes.facts import Fact
from hybridcc.passes.verdict import NAN_PAYLOADS, Proved, Unknown, Verdict
from hybridcc.passes.verify.proof import certificate as certificates
from hybridcc.passes.verify.proof.solver import OutOfBudget, Solver, TimeLimit

FORMAT: Final = 1
SEEDS: Final = (1,)
"""One is enough: a search that fails begins again with more rows (attempt.py, TRIES)."""
SECONDS: Final = 60
MEMORY_BYTES: Final = 2 << 30
QUERIES: Final = 20_000
IRREPRODUCIBLE: Final = "timeout"
"""How the reason of an Unknown begins that another machine might not give."""
AT_VALUES: Final = ", at "
"""What stands in a reason before the values of a solver's model."""


@dataclass(frozen=True, slots=True)
class Task:
    base: str
    candidate: str
    entry: str | None
    facts: tuple[Fact, ...]
    seeds: tuple[int, ...] = SEEDS
    queries: int = QUERIES
    backend: str = "bitwuzla"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A verdict. ``hints`` are values of parameters and special registers, by variable name, where the search or a
    solver's model saw the two go apart: worth running (refuting.py), and no evidence by themselves."""

    verdict: Verdict
    hints: tuple[dict[str, int], ...] = ()


def is_reproducible(verdict: Verdict) -> bool:
    """Whether another machine would say the same: False for what a clock or the memory at hand decided."""
    return not (isinstance(verdict, Unknown) and verdict.reason.startswith(IRREPRODUCIBLE))


def prove(
    base: str,
    candidate: str,
    entry: str | None = None,
    facts: Iterable[Fact] = (),
    *,
    seeds: tuple[int, ...] = SEEDS,
    isolated: bool = True,
) -> Verdict:
    """Proved with a certificate (JSON), or Unknown with the reason and the place.

    ``base`` and ``candidate`` are whole PTX modules. Of ``facts``, those that may carry a proof are used (see
    premises.py) and named in the certificate. ``isolated`` runs the work in a child process under SECONDS and
    MEMORY_BYTES. A prover that cannot prove a baseline equal to itself is not believed about anything else: that is
    tried first, once per baseline and process. Raises InputError for texts that cannot be read and MissingExtra
    without a solver.
    """
    return attempt(base, candidate, entry, facts, seeds=seeds, isolated=isolated).verdict


def attempt(
    base: str,
    candidate: str,
    entry: str | None = None,
    facts: Iterable[Fact] = (),
    *,
    seeds: tuple[int, ...] = SEEDS,
    isolated: bool = True,
) -> Attempt:
    """As ``prove``, with hints for a refutation."""
    work = _in_child if isolated else attempt_here
    itself = Task(base, base, entry, tuple(facts), seeds)
    reference = _SELF.get(itself) or work(itself).verdict
    if is_reproducible(reference):
        _SELF[itself] = reference
    if isinstance(reference, Unknown):
        mark = "void" if is_reproducible(reference) else IRREPRODUCIBLE
        return Attempt(Unknown(f"{mark}: the baseline is not proved equal to itself: {reference.reason}"))
    return work(Task(base, candidate, entry, tuple(facts), seeds))


_SELF: dict[Task, Verdict] = {}
"""What came of each baseline against itself; never what a clock decided."""


def run(task: Task) -> Verdict:
    """The work itself, in this process."""
    return attempt_here(task).verdict


def attempt_here(task: Task) -> Attempt:
    """As ``run``, with hints."""
    from hybridcc.passes.verify.proof import terms
    from hybridcc.passes.verify.proof.attempt import Differs, readings, search
    from hybridcc.passes.verify.proof.backends import backend
    from hybridcc.passes.verify.proof.checker import Rejected, check
    from hybridcc.passes.verify.proof.program import Unsupported
    from hybridcc.passes.verify.proof.solver import forget_symbols

    terms.forget()
    forget_symbols()
    started = time.perf_counter()
    reason = "no attempt was made"
    hints: list[dict[str, int]] = []
    try:
        base, candidate, premises = _read(task)
        tries = [(ideal, seed) for ideal in readings(base, candidate) for seed in task.seeds]
        solver: Solver | None = None
        for ideal, seed in tries:
            solver = Solver(backend(task.backend), budget=task.queries) if solver is None else solver.again()
            try:
                found = search(base, candidate, premises, solver, seed, ideal=ideal)
                text = certificates.write(found)
                judge = solver.again()  # what the search asked, the check need not ask the backend again
                check(certificates.read(text), base, candidate, premises, judge)
            except Rejected as error:
                reason = str(error)
                hints += solver.latest_values()
                continue
            except Differs:
                if ideal is tries[-1][0]:
                    raise
                continue
            seconds = time.perf_counter() - started
            document = _document(task, text, premises.used, premises.set_aside, judge, seconds)
            return Attempt(Proved(document, _aside(base, candidate, ideal)))
    except Differs as error:
        hints.append(error.values)
        shown = ", ".join(f"{k}={v}" for k, v in sorted(error.values.items()) if v and _worth_showing(k))
        reason = f"the two differ when floating point is uninterpreted{AT_VALUES}{shown}"
    except Unsupported as error:
        reason = f"unsupported: {error}"
    except (OutOfBudget, terms.TermTooLarge) as error:
        reason = f"budget: {error or 'a term grew too large'}"
    except TimeLimit as error:
        reason = f"{IRREPRODUCIBLE}: {error}"
    except RecursionError:
        reason = "budget: terms are nested too deeply"
    return Attempt(Unknown(reason[:1000]), tuple(hints))


def recheck(
    document: str,
    base: str,
    candidate: str,
    entry: str | None = None,
    facts: Iterable[Fact] = (),
    *,
    backend_name: str = "z3",
) -> Verdict:
    """Check a certificate again without searching, by default with the other solver.

    The premises come from ``facts`` as given here, never from the document.
    """
    from hybridcc.passes.verify.proof import terms
    from hybridcc.passes.verify.proof.backends import backend
    from hybridcc.passes.verify.proof.checker import Rejected, check
    from hybridcc.passes.verify.proof.program import Unsupported
    from hybridcc.passes.verify.proof.solver import forget_symbols

    terms.forget()
    forget_symbols()
    task = Task(base, candidate, entry, tuple(facts), backend=backend_name)
    started = time.perf_counter()
    try:
        text = json.loads(document)["certificate"]
        read_base, read_candidate, premises = _read(task)
        solver = Solver(backend(backend_name), budget=task.queries, milliseconds=60_000)
        found = certificates.read(json.dumps(text))
        check(found, read_base, read_candidate, premises, solver)
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise InputError(f"no certificate: {error}", next_step="give a file that hybridcc verify wrote") from error
    except certificates.BadCertificate as error:
        raise InputError(f"bad certificate: {error}", next_step="prove it again with hybridcc verify") from error
    except (Rejected, Unsupported) as error:
        return Unknown(f"the certificate is refused: {error}"[:1000])
    except (OutOfBudget, terms.TermTooLarge, RecursionError) as error:
        return Unknown(f"budget: {error}")
    except TimeLimit as error:
        return Unknown(f"{IRREPRODUCIBLE}: {error}")
    seconds = time.perf_counter() - started
    again = _document(task, json.dumps(text), premises.used, premises.set_aside, solver, seconds)
    return Proved(again, _aside(read_base, read_candidate, found.ideal))


def _read(task: Task):
    from hybridcc.passes.verify.proof.premises import premises
    from hybridcc.passes.verify.proof.reading import read_program
    from hybridcc.ptx import parse

    base = read_program(parse(task.base, "base"), task.entry)
    candidate = read_program(parse(task.candidate, "candidate"), task.entry or base.name)
    return base, candidate, premises(task.facts, tuple(width for _, width in base.parameters))


def _aside(base: Any, candidate: Any, ideal: bool) -> tuple[str, ...]:
    from hybridcc.passes.verify.proof.contraction import contractible_pairs

    pairs = contractible_pairs(base) or contractible_pairs(candidate)
    return (*([NAN_PAYLOADS] if ideal else ()), *(["contraction"] if pairs else ()))


def _document(
    task: Task, text: str, used: tuple[str, ...], aside: tuple[str, ...], solver: Solver, seconds: float
) -> str:
    return json.dumps(
        {
            "format": FORMAT,
            "solver": f"{solver.backend.name} {solver.backend.version}",
            "queries": solver.statistics.queries,
            "seconds": round(seconds, 3),
            "facts": list(used),
            "facts_of_no_use": list(aside),
            "assumes": ["weak accesses of different threads do not race"],
            "certificate": json.loads(text),
        },
        separators=(",", ":"),
    )


def _worth_showing(name: str) -> bool:
    kind, _, rest = name.partition(":")
    return kind == "special" or rest.endswith(":0:64")


# --- the child process ----------------------------------------------------------------------------------


def _in_child(task: Task) -> Attempt:
    command = [sys.executable, "-m", "hybridcc.passes.verify.proof.child", str(MEMORY_BYTES)]
    try:
        done = subprocess.run(command, input=pickle.dumps(task), capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Attempt(Unknown(f"{IRREPRODUCIBLE}: {SECONDS} s of wall clock"))
    if done.returncode:  # out of memory, as a rule, and seldom in the same words
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"signal {-done.returncode}"]
        return Attempt(Unknown(f"{IRREPRODUCIBLE}: the prover's process ended early: {last[0][:300]}"))
    outcome = pickle.loads(done.stdout)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
