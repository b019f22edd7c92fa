"""Cutting a region that is too long to be asked about in one piece.

A region is cut where every run of it passes exactly once: at places that no path through it avoids and no loop of it
repeats. Of those, none is taken that would part a barrier from an access which the barrier orders: what lies between
two barriers goes with both. Where there is a choice, the cut is made where fewest registers cross it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

from hybridcc.passes.analysis import cfg as cfg_module
from hybridcc.passes.analysis.cfg import ControlFlowGraph, reach
from hybridcc.passes.analysis.dominators import dominators, post_dominators
from hybridcc.passes.analysis.liveness import live, live_before
from hybridcc.passes.analysis.loops import natural_loops
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.regions.find import entry_of, parts_of
from hybridcc.passes.regions.region import Ineligible, Region
from hybridcc.passes.regions.shape import REACH_LIMIT, Shape, enclosed
from hybridcc.ptx import isa, parse, scopes
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Function, Instruction

PRIVATE = frozenset({".param", ".local", ".const"})
"""State spaces that no other thread writes: barriers order nothing there."""
SHRINK = 0.75
"""By how much parts are made smaller where one turns out too long all the same."""
ATTEMPTS = 6
CHOICE = 0.25
"""The last part of the room within which the place with the fewest live registers is taken."""

TOO_LONG = Ineligible("TOO_LONG", "it is longer than the model reads, and can be cut nowhere")

AROUND = Ineligible("TOO_LONG", "it is longer than the model reads; what is asked about is a part inside it")


@dataclass(frozen=True, slots=True)
class _Unit:
    """One instruction of the spine, or all that lies between two blocks of it. ``place`` is the flattened statement
    that it begins at, -1 where no cut can be made in front of it."""

    place: int
    instructions: tuple[Instruction, ...]


def cut(kernel: Kernel, region: Region, fits: Callable[[Region], bool]) -> tuple[Region, ...]:
    """The region if it fits, else parts of it in order, named r0.0, r0.1 and so on.

    A part that does not fit and cannot be cut is ineligible (TOO_LONG); so is the region itself where it cannot be cut
    at all. Raises PtxSyntaxError for PTX that does not parse.
    """
    if not region.eligible or fits(region):
        return (region,)
    found = _cut(kernel, region, fits)
    if len(found) == 1:
        return (replace(region, ineligible=TOO_LONG),)
    return tuple(replace(part, id=f"{region.id}.{number}") for number, part in enumerate(found))


def _cut(kernel: Kernel, region: Region, fits: Callable[[Region], bool]) -> tuple[Region, ...]:
    """Parts of a region that does not fit, in order; where it cannot be cut, parts of what is inside it."""
    units = _units(region)
    repeated = any(loop.blocks >= set(region.blocks) for loop in natural_loops(region.cfg))
    depths = region.cfg.scoped.depths
    scope = depths[region.cfg.blocks[region.entry].first]
    legal = [
        k
        for k in range(1, len(units))
        if units[k].place >= 0 and depths[units[k].place] == scope and _may_part(units[:k], units[k:], repeated)
    ]
    room = sum(len(unit.instructions) for unit in units)
    best: tuple[Region, ...] = (region,)
    for _ in range(ATTEMPTS):
        room = int(room * SHRINK)
        places = _places(region.cfg, units, legal, max(1, room))
        best = _parts(kernel, region, places) if places else best
        if places and all(not part.eligible or fits(part) for part in best):
            return best
    inner = [_inside(kernel, part, fits) if part.eligible and not fits(part) else (part,) for part in best]
    return tuple(part for parts in inner for part in parts)


def _inside(kernel: Kernel, region: Region, fits: Callable[[Region], bool]) -> tuple[Region, ...]:
    """The largest single-entry single-exit part strictly inside, cut where it is too long itself; what is around it is
    left as it is. The region, refused, where nothing is inside."""
    cfg = region.cfg
    tree = post_dominators(cfg)
    shapes = (
        enclosed(cfg, block, end)
        for block in region.blocks
        for end in islice(tree.chain(block), 1, REACH_LIMIT)
        if end in region.blocks or end == region.exit
    )
    own = frozenset(region.blocks)
    smaller = {s for s in shapes if s is not None and s.blocks < own and _in_one_scope(cfg, s)}
    apart = {s for s in smaller if _may_part(_at(cfg, s.blocks), _at(cfg, own - s.blocks), repeated=True)}
    sizes = {s: sum(len(cfg.instructions(b)) for b in s.blocks) for s in apart}
    if not sizes:
        return (replace(region, ineligible=TOO_LONG),)
    shape = max(sizes, key=lambda s: (sizes[s], -s.entry))
    (part,) = _made(kernel, cfg, [(shape.entry, shape.exit)])
    around = replace(region, ineligible=AROUND)
    return (around, part) if not part.eligible or fits(part) else (around, *_cut(kernel, part, fits))


def barriers(function: Function) -> tuple[str, ...]:
    """The barriers of a kernel in the order of its text: what stitching parts together must leave as it was."""
    assert function.body is not None
    found = (s for s in scopes.flatten(function.body) if isinstance(s, Instruction))
    return tuple(s.full_opcode for s in found if Effect.BARRIER in isa.effects(s))


def _units(region: Region) -> list[_Unit]:
    cfg = region.cfg
    spine = _spine(region)
    units: list[_Unit] = []
    rest = set(region.blocks) - set(spine)
    for number, block in enumerate(spine):
        begin = cfg.blocks[block].first
        for index in range(begin, cfg.blocks[block].last):
            statement = cfg.statements[index]
            if isinstance(statement, Instruction):
                units.append(_Unit(begin, (statement,)))
                begin = index + 1
        after = spine[number + 1] if number + 1 < len(spine) else region.exit
        between = {b for s in cfg.blocks[block].successors if s in rest for b in reach(cfg, s, avoiding=after)} & rest
        rest -= between
        inside = tuple(i for b in sorted(between) for i in cfg.instructions(b))
        if inside:
            units.append(_Unit(-1, inside))
    return units


def _spine(region: Region) -> list[int]:
    """The blocks that each run of the region passes exactly once, in order."""
    cfg, blocks = region.cfg, frozenset(region.blocks)
    repeated = {b for loop in natural_loops(cfg) if loop.blocks <= blocks for b in loop.blocks}
    tree = dominators(cfg)
    always = [b for b in region.blocks if b not in repeated and not _avoidable(cfg, region, b)]
    return sorted(always, key=lambda b: sum(tree.dominates(other, b) for other in always))


def _avoidable(cfg: ControlFlowGraph, region: Region, block: int) -> bool:
    """Whether the exit is reached from the entry without that block."""
    if block == region.entry:
        return False
    seen, waiting = {region.entry, block}, [region.entry]
    while waiting:
        for successor in cfg.blocks[waiting.pop()].successors:
            if successor == region.exit:
                return True
            if successor not in seen:
                seen.add(successor)
                waiting.append(successor)
    return False


def _may_part(before: Sequence[_Unit], after: Sequence[_Unit], repeated: bool) -> bool:
    """Whether no barrier lies on one side with an access that it orders on the other. In a loop a barrier orders what
    comes before it in the next turn as well."""
    if repeated:
        return not (_accesses(before) and _waits(after)) and not (_accesses(after) and _waits(before))
    accesses, barrier = _until_barrier(reversed(before))
    more, another = _until_barrier(after)
    return not (accesses and another) and not (more and barrier)


def _in_one_scope(cfg: ControlFlowGraph, shape: Shape) -> bool:
    """Whether nothing in it lies outside the scope (the braces) that it begins in."""
    depths = cfg.scoped.depths
    begin = depths[cfg.blocks[shape.entry].first]
    return all(depths[n] >= begin for b in shape.blocks for n in range(cfg.blocks[b].first, cfg.blocks[b].last))


def _made(kernel: Kernel, cfg: ControlFlowGraph, ends: Iterable[tuple[int, int]]) -> tuple[Region, ...]:
    module = parse(kernel.ptx, kernel.source_file or kernel.name)
    return parts_of(module, entry_of(module, kernel.entry), kernel, cfg, ends)


def _at(cfg: ControlFlowGraph, blocks: Iterable[int]) -> list[_Unit]:
    return [_Unit(-1, tuple(i for b in sorted(blocks) for i in cfg.instructions(b)))]


def _accesses(units: Iterable[_Unit]) -> bool:
    return any(_is_shared_access(i) for unit in units for i in unit.instructions)


def _waits(units: Iterable[_Unit]) -> bool:
    return any(Effect.BARRIER in isa.effects(i) for unit in units for i in unit.instructions)


def _is_shared_access(instruction: Instruction) -> bool:
    """Whether it reads or writes what another thread may read or write."""
    if not isa.effects(instruction) & {Effect.READ, Effect.WRITE}:
        return False
    spaces = isa.memory_spaces(instruction)
    return not spaces or not set(spaces) <= PRIVATE


def _until_barrier(units: Iterable[_Unit]) -> tuple[bool, bool]:
    """(whether memory is accessed before the first barrier, whether there is a barrier), going that way."""
    accessed = False
    for unit in units:
        shared = _accesses((unit,))
        if _waits((unit,)):
            # Of several instructions at once, the order is not asked for: the access may be on this side.
            return accessed or (shared and len(unit.instructions) > 1), True
        accessed = accessed or shared
    return accessed, False


def _places(cfg: ControlFlowGraph, units: Sequence[_Unit], legal: Sequence[int], room: int) -> list[int]:
    """Where to cut, so that parts have at most ``room`` instructions where that can be had."""
    liveness = live(cfg)
    sizes = [len(unit.instructions) for unit in units]
    places: list[int] = []
    begin = 0
    while sum(sizes[begin:]) > room:
        reached = [k for k in legal if k > begin and sum(sizes[begin:k]) <= room]
        later = [k for k in legal if k > begin]
        if reached:
            close = [k for k in reached if sum(sizes[begin:k]) >= (1 - CHOICE) * room] or reached[-1:]
            begin = min(close, key=lambda k: (len(live_before(cfg, liveness, units[k].place)), -k))
        elif later:
            begin = later[0]
        else:
            break
        places.append(units[begin].place)
    return places


def _parts(kernel: Kernel, region: Region, places: Sequence[int]) -> tuple[Region, ...]:
    old = region.cfg
    begin, end = old.blocks[region.entry].first, old.blocks[region.exit].first
    kept = {block.first for block in old.blocks}
    cfg = cfg_module.from_scoped(old.function, old.scoped, splits=frozenset({*kept, *places} - {0}))
    edges = [cfg.block_of(place) for place in (begin, *places, end)]
    return _made(kernel, cfg, pairwise(edges))
