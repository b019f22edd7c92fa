"""What a region costs and why, for the prompt: estimated from its text alone, so that it is the same everywhere."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from hybridcc.passes.analysis.liveness import live, live_before
from hybridcc.passes.analysis.loops import natural_loops
from hybridcc.passes.edits.apply import address_held
from hybridcc.passes.execute.layout import size_of
from hybridcc.passes.facts import Relation
from hybridcc.passes.profile.estimate import estimated_counts, weigh
from hybridcc.passes.profile.model import Limiter, Unit, block_cost, unit_of
from hybridcc.passes.regions import Region
from hybridcc.passes.rewrite.lints import Finding, check_region
from hybridcc.passes.rewrite.techniques import Technique, choose
from hybridcc.ptx import isa
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Instruction
from hybridcc.ptx.targets import Target

MOST_FINDINGS = 4

_ITERATOR = re.compile(r"selp\.\w+ %\w+, -1, 0, ")
"""The step of the trips left, in what Numba makes of ``range``."""
_WRAPAROUND = re.compile(r"shr\.s64 (%\w+), (%\w+), 63;\n\s*and\.b64 %\w+, \1, ")
"""``i < 0``, as a mask, in front of the shape that is added then."""

_LIMITERS = {
    Limiter.ISSUE: "the number of instructions (every one that is not needed costs)",
    Limiter.COMPUTE: "arithmetic",
    Limiter.MEMORY: "the load/store units (fewer or wider accesses help)",
    Limiter.LATENCY: "latency (chains of instructions that wait for each other, above all for loads)",
}
_SHARES = ((0.95, "nearly all (95 % or more)"), (0.75, "most (75 % or more)"), (0.5, "more than half"))
_LITTLE = "less than half"


@dataclass(frozen=True, slots=True)
class Situation:
    """``hottest`` is the block that takes most of the region's estimated time, ``busiest`` the unit that it needs
    most."""

    hottest: int
    limiter: Limiter
    busiest: Unit
    traits: frozenset[str]
    findings: tuple[Finding, ...]
    techniques: tuple[Technique, ...]


def situation(region: Region, on: Target) -> Situation:
    cfg = region.cfg
    weights = weigh(cfg, estimated_counts(cfg), on)
    hottest = max(region.order, key=lambda b: weights[b])
    cost = block_cost(cfg.instructions(hottest), on)
    limiter = cost.limiter(on.warps_per_sm / 2)
    busiest = max(cost.units, key=lambda one: one[1], default=(Unit.INT32, 0.0))[0]
    has = traits(region)
    findings = check_region(region, on.name)
    techniques = choose(findings, on.name, _held(region), limiter, has)
    return Situation(hottest, limiter, busiest, has, findings, techniques)


def profile(region: Region, found: Situation) -> tuple[str, ...]:
    """Sentences on time: where it goes, and what bounds it."""
    label = next((name for name, block in region.labels.items() if block == found.hottest), "the top of the region")
    instructions = region.cfg.instructions(found.hottest)
    unit = f" (the {found.busiest.value} units)" if found.limiter is Limiter.COMPUTE else ""
    return (
        f"Estimated from the text, not measured: the region is {region.weight} and takes {_share(region.share)} of the "
        f"kernel's time. What bounds it: {_LIMITERS[found.limiter]}{unit}.",
        f"The block that costs most is at {label}: {_mix(instructions)}. The longest chain in it takes about "
        f"{_chain(instructions)} cycles.",
        f"At most {pressure(region)} registers of 32 bits are live at once in the original.",
    )


def lints(found: Situation) -> tuple[str, ...]:
    """The gravest findings, each code once with all its places counted."""
    by_code: dict[str, list[Finding]] = {}
    for finding in found.findings:
        by_code.setdefault(finding.code, []).append(finding)
    return tuple(_finding(group) for group in list(by_code.values())[:MOST_FINDINGS])


def suggestions(found: Situation) -> tuple[str, ...]:
    """The techniques in words."""
    return tuple(f"{t.name.replace('_', ' ')}: {t.summary} {t.helps}" for t in found.techniques)


def paddable(region: Region, found: Situation) -> tuple[str, ...]:
    """The shared arrays whose rows a rewrite may ask to have moved apart, where threads wait for one bank."""
    if not any(finding.code == "BANK_CONFLICT" for finding in found.findings):
        return ()
    variables = region.cfg.scoped.variables
    named = [(name, variables[unique]) for name, unique in region.symbols.items() if unique in variables]
    named += [
        (f"%in{k}", variables[port_of])
        for k, port in enumerate(region.live_in)
        if (port_of := address_held(region, port)) is not None
    ]
    return tuple(
        f"{name} ({size_of(v, v.names[0])} bytes)"
        for name, v in named
        if v.space == ".shared" and ".extern" not in v.linkage and size_of(v, v.names[0])
    )


def traits(region: Region) -> frozenset[str]:
    """What a region has, in the words that techniques and examples ask for it."""
    cfg, effects = region.cfg, region.effects
    instructions = tuple(i for b in region.order for i in cfg.instructions(b))
    kinds = {kind for i in instructions for kind in isa.types(i)}
    has = {
        "loop": any(loop.blocks <= set(region.blocks) for loop in natural_loops(cfg)),
        "global loads": bool(effects.loads.keys() & {".global", "generic"}),
        "shared": ".shared" in {*effects.loads, *effects.stores, *effects.atomics},
        "unrolled": '.pragma "nounroll"' in region.text,
        "together": effects.barriers + effects.convergent > 0,
        "barriers": effects.barriers > 0,
        "shuffles": effects.convergent > effects.barriers,
        "f64": ".f64" in kinds,
        "floats": bool(kinds & {".f16", ".f16x2", ".bf16", ".f32", ".f64"}),
        "iterator": _ITERATOR.search(region.text) is not None,
        "wraparound": _WRAPAROUND.search(region.text) is not None,
    }
    return frozenset(name for name, there in has.items() if there)


def pressure(region: Region) -> int:
    """The most registers of 32 bits that hold values at one time, predicates aside."""
    cfg, types = region.cfg, region.cfg.scoped.types
    liveness = live(cfg)
    places = (i for i in sorted(region.statements) if isinstance(cfg.statements[i], Instruction))
    return max(sum(_words(types.get(r, "")) for r in live_before(cfg, liveness, i)) for i in places)


def _words(declared: str) -> int:
    return 0 if declared in ("", ".pred") else -(-isa.bits(declared) // 32)


def _finding(group: list[Finding]) -> str:
    first, others = group[0], len(group) - 1
    more = f" (and {others} more like it)" if others else ""
    return f"{first}{more}."


def _share(share: float) -> str:
    return next((words for least, words in _SHARES if share >= least - 1e-9), _LITTLE)


def _mix(instructions: Iterable[Instruction]) -> str:
    """``24 instructions: 2 loads, 1 f32, 20 integer, 1 branch``."""
    kinds = Counter(_kind(i) for i in instructions)
    order = ("load", "store", "atomic", "barrier", "f16", "f32", "f64", "special", "integer or predicate", "branch")
    parts = [f"{kinds[kind]} {kind}" for kind in (*order, "other") if kinds[kind]]
    return f"{kinds.total()} instructions ({', '.join(parts)})"


def _kind(instruction: Instruction) -> str:
    effects = isa.effects(instruction)
    for effect, name in (
        (Effect.ATOMIC, "atomic"),
        (Effect.BARRIER, "barrier"),
        (Effect.READ, "load"),
        (Effect.WRITE, "store"),
        (Effect.CONTROL, "branch"),
    ):
        if effect in effects:
            return name
    match unit_of(instruction):
        case Unit.FP16 | Unit.FP32 | Unit.FP64 as unit:
            return unit.value.replace("fp", "f")
        case Unit.SPECIAL:
            return "special"
        case Unit.INT32:
            return "integer or predicate"
        case _:
            return "other"


def _chain(instructions: tuple[Instruction, ...]) -> int:
    from hybridcc.passes.profile.model import longest_chain

    return round(longest_chain(instructions))


def _held(region: Region) -> set[str]:
    """The facts in the words that techniques ask for them."""
    held = {re.sub(r"^at \S+: ", "", str(fact)) for fact in region.facts}
    read_only = any(fact.relation is Relation.READ_ONLY for fact in region.facts)
    return held | ({Relation.READ_ONLY.value} if read_only else set())
