"""The parts of a prompt that are computed from a region: interface, loops, facts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hybridcc.passes.analysis.interval import whole
from hybridcc.passes.analysis.liveness import live
from hybridcc.passes.analysis.loops import Loop, natural_loops
from hybridcc.passes.analysis.parameters import parameter_meanings
from hybridcc.passes.analysis.ranges import ranges_at, special_ranges
from hybridcc.passes.facts import Bytes, Fact, Origin, Parameter, Term
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.profile.trips import constant_trips
from hybridcc.passes.regions import Port, Region, canonical_names
from hybridcc.ptx import isa
from hybridcc.ptx.isa import Effect

_MANGLED = re.compile(r"_Z[\w$]*?_param_(\d+)")
_PARAMETER = re.compile(r"param\d+")
_SPECIAL = re.compile(r"%(?:n?tid|n?ctaid)\.[xyz]|%laneid|WARP_SZ")
_MANGLED_OTHER = re.compile(r"_Z[\w$]+")


@dataclass(frozen=True, slots=True)
class PortRow:
    """One row of the interface table."""

    name: str
    type: str
    meaning: str


def inputs(region: Region) -> tuple[PortRow, ...]:
    return _rows("%in", region.live_in)


def outputs(region: Region) -> tuple[PortRow, ...]:
    carried = {port.register: f"%in{k}" for k, port in enumerate(region.live_in)}
    rows = _rows("%out", region.live_out)
    return tuple(
        replace(row, meaning=f"comes in as {carried[p.register]}") if p.register in carried else row
        for row, p in zip(rows, region.live_out, strict=True)
    )


def parameters(region: Region, kernel: Kernel) -> tuple[str, ...]:
    """What the kernel's parameters mean that the text reads itself."""
    meanings = parameter_meanings(kernel, region.cfg.function)
    return tuple(f"param{k}  {scrub(meanings[k])}" for k in _read_parameters(region))


def facts(region: Region, kernel: Kernel) -> tuple[str, ...]:
    """Each fact with its origin, in the region's order, once; then the bounds that hold at the top of its
    loops, those of special registers, and those on parameters that the text reads itself."""
    read = set(_read_parameters(region))
    of_kernel = [f for f in kernel.facts if (about := _parameters_of(f)) and about <= read]
    spelled = [f"{_plain(fact)}  [{fact.origin.value}]" for fact in region.facts]
    spelled += _in_loops(region, kernel)
    spelled += _specials(region, kernel)
    spelled += [f"{_with_numbers(fact)}  [{fact.origin.value}]" for fact in of_kernel]
    return tuple(dict.fromkeys(spelled))


def _in_loops(region: Region, kernel: Kernel) -> list[str]:
    """Bounds that hold whenever control comes to a loop's label, where they say more than those at the entry."""
    cfg, names = region.cfg, canonical_names(region)
    label_of = {block: label for label, block in region.labels.items()}
    at_entry = ranges_at(cfg, kernel.facts, region.entry)
    shown = []
    for loop in natural_loops(cfg):
        if not loop.blocks <= set(region.blocks) or loop.header not in label_of:
            continue
        here = ranges_at(cfg, kernel.facts, loop.header)
        for register in sorted(live(cfg).live_in[loop.header] & names.keys(), key=lambda r: _by_number(names[r])):
            known, before = here.of(register), at_entry.of(register)
            if known is None or before is None:
                continue
            everything = whole(isa.bits(cfg.scoped.types[register]))
            known_before = before.interval if names[register].startswith("%in") else everything
            for word, bound, old in (
                (">=", known.interval.low, known_before.low),
                ("<=", known.interval.high, known_before.high),
            ):
                if bound != old:
                    shown.append(f"at {label_of[loop.header]}: {names[register]} {word} {bound}  [invariant]")
    return shown


def _specials(region: Region, kernel: Kernel) -> list[str]:
    """Their bounds, as one line each."""
    ranges = special_ranges(region.cfg, kernel.facts)
    read = sorted(set(_SPECIAL.findall(region.text)) & ranges.keys())
    shown = []
    for name in read:
        interval, origins = ranges[name].interval, ranges[name].origins or {Origin.ISA}
        words = ", ".join(sorted(origin.value for origin in origins))
        shown.append(f"{interval.low} <= {name} <= {interval.high}  [{words}]")
    return shown


def _read_parameters(region: Region) -> tuple[int, ...]:
    return tuple(sorted(int(name[5:]) for name in region.symbols if _PARAMETER.fullmatch(name)))


def _parameters_of(fact: Fact) -> set[int]:
    """The parameters that a fact is about; empty where it is about something else too."""
    found: set[int] = set()
    for term in (fact.left, fact.right):
        match term:
            case Parameter(index, _) | Bytes(Parameter(index, _), int(), _):
                found.add(index)
            case Bytes(Parameter(index, _), Parameter(count, _), _):
                found |= {index, count}
            case int() | None:
                pass
            case _:
                return set()
    return found


def _with_numbers(fact: Fact) -> str:
    def named(term: Term) -> Term:
        match term:
            case Parameter(index, _):
                return Parameter(index, f"param{index}")
            case Bytes(Parameter(index, _), count, size):
                counted = Parameter(count.index, f"param{count.index}") if isinstance(count, Parameter) else count
                return Bytes(Parameter(index, f"param{index}"), counted, size)
            case _:
                return term

    return str(replace(fact, left=named(fact.left), right=None if fact.right is None else named(fact.right)))


def loops(region: Region) -> tuple[str, ...]:
    """One line a loop inside the region: where it begins, what it holds, what it carries from turn to turn, and what is
    live through it unchanged. Inner loops are set in."""
    inside = set(region.blocks)
    found = [loop for loop in natural_loops(region.cfg) if loop.blocks <= inside]
    names = canonical_names(region)
    live_in = live(region.cfg).live_in
    return tuple(_loop(region, loop, found, names, live_in[loop.header]) for loop in found)


def without_declarations(text: str) -> str:
    """Canonical text as it is shown: the instructions say the types."""
    lines = text.strip("\n").split("\n")
    return "\n".join(line for line in lines if not line.lstrip().startswith(".reg "))


def span_of_names(stem: str, count: int) -> str:
    """``%in0 to %in4``, as prose has it."""
    return "none" if count == 0 else f"{stem}0" if count == 1 else f"{stem}0 to {stem}{count - 1}"


def _rows(stem: str, ports: Sequence[Port]) -> tuple[PortRow, ...]:
    rows = []
    for index, port in enumerate(ports):
        notes = [scrub(port.origin_note)] if port.origin_note else []
        if port.uniform:
            notes.append("the same in every thread of the block")
        rows.append(PortRow(f"{stem}{index}", port.type, "; ".join(notes)))
    width = max((len(r.name) for r in rows), default=0)
    kind = max((len(r.type) for r in rows), default=0)
    return tuple(PortRow(r.name.ljust(width), r.type.ljust(kind), r.meaning) for r in rows)


def scrub(text: str) -> str:
    """The text with mangled names replaced: they carry a counter that differs from one process to the next."""
    return _MANGLED_OTHER.sub("symbol", _MANGLED.sub(r"param\1", text))


def _plain(fact: Fact) -> str:
    return str(replace(fact, left=_term(fact.left), right=None if fact.right is None else _term(fact.right)))


def _term(term: Term) -> Term:
    return replace(term, label=scrub(term.label)) if isinstance(term, Parameter) else term


def _loop(region: Region, loop: Loop, others: Sequence[Loop], names: Mapping[str, str], before: frozenset[str]) -> str:
    cfg = region.cfg
    label_of = {block: label for label, block in region.labels.items()}
    instructions = [i for b in sorted(loop.blocks) for i in cfg.instructions(b)]
    written = dict.fromkeys(d for i in instructions for d in isa.defs(i))
    carried = [f"{names[r]} ({cfg.scoped.types[r]})" for r in written if r in before and r in names]
    kept = sorted((names[r] for r in before if r not in written and r in names), key=_by_number)
    around = [o for o in others if loop.blocks < o.blocks]
    where = f", inside {label_of.get(min(around, key=lambda o: len(o.blocks)).header, 'a loop')}" if around else ""
    trips = constant_trips(cfg, loop)
    loads = Counter(isa.memory_space(i) or "generic" for i in instructions if Effect.READ in isa.effects(i))
    shown = ", ".join(f"{n} {space.removeprefix('.')} loads" for space, n in loads.items()) or "no loads"
    head = f"{'  ' * len(around)}{label_of.get(loop.header, 'top of the region')}{where}"
    turns = f", {trips} turns" if trips else ""
    return (
        f"{head}: {len(instructions)} instructions, {shown}{turns}; carries {', '.join(carried) or 'nothing'}; "
        f"keeps {', '.join(kept) or 'nothing'}"
    )


def _by_number(name: str) -> tuple[str, int]:
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0)
