"""``hybridcc.verify``: are two kernels, or a region and its rewrite, equal for every input?

The executor is asked first, on generated launches; then the prover; and where the prover fails, the executor again,
on launches made from where it failed. Refuted is only said of a launch that was run twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hybridcc.errors import ExecutionError, HybridccError, InputError
from hybridcc.passes.facts import Fact
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.verdict import NAN_PAYLOADS, Proved, Unknown, Verdict
from hybridcc.passes.verify.launch import Launch
from hybridcc.passes.verify.once import Execute

LAUNCHES = 32
STEPS = 4_000_000
"""Instructions of one launch, all threads together. After ENDLESS launches that reach it, FEW_STEPS: a kernel that
never ends must not keep its user waiting either."""
ENDLESS = 3
FEW_STEPS = 10_000


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and the launch of a refutation. ``kernel`` and ``candidate`` are whole kernels, spliced if need be."""

    verdict: Verdict
    kernel: Kernel
    candidate: str
    launch: Launch | None = None


def verify(
    base: str | Kernel,
    candidate: str,
    entry: str | None = None,
    facts: Iterable[Fact] = (),
    *,
    region: str | None = None,
    launches: int = LAUNCHES,
    seed: int = 0,
) -> Verdict:
    """Proved, Refuted or Unknown.

    ``base`` is PTX or a Kernel (whose facts are used too), ``candidate`` PTX with the same kernel; with ``region`` (an
    id of ``hybridcc regions``) it is the rewrite of that region alone. ``facts`` are your promises: launches that break
    them are not considered. Raises InputError, PtxSyntaxError and SpliceRefused for what cannot be read or placed,
    MissingExtra without a solver.
    """
    return judge(base, candidate, entry, facts, region=region, launches=launches, seed=seed).verdict


def judge(
    base: str | Kernel,
    candidate: str,
    entry: str | None = None,
    facts: Iterable[Fact] = (),
    *,
    region: str | None = None,
    launches: int = LAUNCHES,
    seed: int = 0,
) -> Judgement:
    """As ``verify``, with what the verdict is about."""
    from hybridcc.passes.verify import proving

    kernel, text, promised = pair(base, candidate, entry, facts, region)
    able = _with_arguments(kernel)
    found = None if able is None else _tested(able, text, promised, launches, seed)
    if found is not None and able is not None and _tested(able, text, promised, launches, seed, payloads_aside=True):
        return found
    tried = proving.attempt(kernel.ptx, text, kernel.entry, promised)
    if found is not None:  # by payloads of NaNs alone, which a proof may set aside
        aside = tried.verdict.aside if isinstance(tried.verdict, Proved) else ()
        return Judgement(tried.verdict, kernel, text) if NAN_PAYLOADS in aside else found
    if able is not None and isinstance(tried.verdict, Unknown) and tried.hints:
        from hybridcc.passes.verify.refuting import refute

        shown = refute(able, text, tried.hints, promised, seed=seed)
        if shown is not None:
            return Judgement(shown.verdict, able, text, shown.counterexample)
    return Judgement(tried.verdict, kernel, text)


def pair(
    base: str | Kernel, candidate: str, entry: str | None, facts: Iterable[Fact], region: str | None
) -> tuple[Kernel, str, tuple[Fact, ...]]:
    """The two whole kernels, and the facts of both."""
    from hybridcc.ptx import parse

    kernel = base if isinstance(base, Kernel) else _only(base, entry)
    if region is not None:
        return kernel, _spliced(kernel, region, candidate), (*kernel.facts, *facts)
    names = [function.name for function in parse(candidate, "candidate").entries]
    if kernel.entry not in names:
        known = ", ".join(names) or "none"
        raise InputError(
            f"no entry {kernel.entry} (entries: {known})",
            where="candidate",
            next_step="give both a kernel of that name",
        )
    return kernel, candidate, (*kernel.facts, *facts)


def _only(text: str, entry: str | None) -> Kernel:
    from hybridcc.frontends.ptx_file import from_text

    kernels = from_text(text, entry, name="base")
    if len(kernels) != 1:
        raise InputError(f"{len(kernels)} kernels", next_step="name one with --entry")
    return kernels[0]


def _spliced(kernel: Kernel, name: str, text: str) -> str:
    from hybridcc.passes.regions import find
    from hybridcc.passes.splice import splice
    from hybridcc.ptx import parse

    found = {region.id: region for region in find(kernel)}
    if name not in found:
        known = ", ".join(found) or "none"
        raise InputError(f"no region {name} (regions: {known})", next_step="list them with hybridcc regions")
    return str(splice(parse(kernel.ptx, kernel.name), found[name], text).module)


def _with_arguments(kernel: Kernel) -> Kernel | None:
    from hybridcc.passes.verify.bare import with_arguments

    try:
        return with_arguments(kernel)
    except InputError:
        return None  # no inputs can be made for such parameters: only the prover can speak


def _tested(
    kernel: Kernel, text: str, facts: tuple[Fact, ...], most: int, seed: int, *, payloads_aside: bool = False
) -> Judgement | None:
    """A launch, among those generated that keep the facts, on which the executor tells the two apart."""
    from hybridcc.passes.verify.keeping import keeps
    from hybridcc.passes.verify.once import default_execute
    from hybridcc.passes.verify.reference import reference_for
    from hybridcc.passes.verify.refuting import replays
    from hybridcc.passes.verify.source import launches_for
    from hybridcc.passes.verify.testing import examine

    try:
        execute = _impatient(default_execute())
        made = launches_for(kernel, (), seed=seed, execute=execute).launches
        kept = (launch for launch in made if keeps(launch, kernel, facts))
        found = examine(reference_for(kernel, kept, execute=execute), text, most=most, payloads_aside=payloads_aside)
        launch = found.counterexample
        if launch is not None and replays(kernel, text, launch):
            return Judgement(found.verdict, kernel, text, launch)
    except HybridccError:
        return None  # what the executor cannot run, the prover may still decide
    return None


def _impatient(execute: Execute) -> Execute:
    endless = 0

    def run(*arguments: Any, step_limit: int = STEPS, **options: Any) -> Any:
        nonlocal endless
        try:
            return execute(*arguments, step_limit=min(step_limit, STEPS if endless < ENDLESS else FEW_STEPS), **options)
        except ExecutionError as error:
            endless += error.reason == "STEP_LIMIT"
            raise

    return run
