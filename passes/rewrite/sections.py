"""The parts of a prompt that are computed from a region: interface, loops, facts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hybridcc.passes.analysis.liveness import live
from hybridcc.passes.analysis.loops import Loop, natural_loops
from hybridcc.passes.facts import Fact, Parameter, Term
from hybridcc.passes.regions import Port, Region
from hybridcc.ptx import isa
from hybridcc.ptx.isa import Effect

_MANGLED = re.compile(r"_Z[\w$]*?_param_(\d+)")
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


def facts(region: Region) -> tuple[str, ...]:
    """Each fact with its origin, in the region's order, once."""
    spelled = (f"{_plain(fact)}  [{fact.origin.value}]" for fact in region.facts)
    return tuple(dict.fromkeys(spelled))


def loops(region: Region) -> tuple[str, ...]:
    """One line a loop inside the region: where it begins, what it holds, what it carries from turn to turn."""
    inside = set(region.blocks)
    found = [loop for loop in natural_loops(region.cfg) if loop.blocks <= inside]
    names = _canonical_names(region)
    label_of = {block: label for label, block in region.labels.items()}
    live_in = live(region.cfg).live_in
    return tuple(_loop(region, loop, found, names, label_of, live_in[loop.header]) for loop in found)


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


def _canonical_names(region: Region) -> dict[str, str]:
    """From the resolver's unique names to those of the region's text."""
    names = {port.register: f"%in{k}" for k, port in enumerate(region.live_in)}
    names |= {old: new for new, old in region.temporaries.items()}
    return names | {port.register: f"%out{k}" for k, port in enumerate(region.live_out)}


def _loop(
    region: Region,
    loop: Loop,
    others: Iterable[Loop],
    names: dict[str, str],
    label_of: dict[int, str],
    live_at_header: frozenset[str],
) -> str:
    instructions = [i for b in sorted(loop.blocks) for i in region.cfg.instructions(b)]
    written = dict.fromkeys(d for i in instructions for d in isa.defs(i))
    carried = [f"{names[r]} ({region.cfg.scoped.types[r]})" for r in written if r in live_at_header and r in names]
    around = [o for o in others if loop.blocks < o.blocks]
    where = f", inside {label_of.get(min(around, key=lambda o: len(o.blocks)).header, 'a loop')}" if around else ""
    loads = Counter(isa.memory_space(i) or "generic" for i in instructions if Effect.READ in isa.effects(i))
    shown = ", ".join(f"{n} {space.removeprefix('.')} loads" for space, n in loads.items()) or "no loads"
    return (
        f"{label_of.get(loop.header, 'top of the region')}{where}: {len(instructions)} instructions, {shown}; "
        f"carries {', '.join(carried) or 'nothing'}"
    )
