"""find(): from a kernel to its regions, hottest first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hybridcc.errors import InputError
from hybridcc.passes.analysis import cfg as cfg_module
from hybridcc.passes.analysis.cfg import EXIT, ControlFlowGraph
from hybridcc.passes.analysis.liveness import live_before
from hybridcc.passes.analysis.loops import Loop, irreducible_blocks
from hybridcc.passes.analysis.parameters import parameter_meanings
from hybridcc.passes.analysis.provenance import Provenance, provenance
from hybridcc.passes.analysis.ranges import ranges_at
from hybridcc.passes.analysis.uniform import uniform_registers
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.profile.profile import Profile, estimate
from hybridcc.passes.regions.canonical import canonical
from hybridcc.passes.regions.eligible import effects_of, module_obstacle, obstacle
from hybridcc.passes.regions.facts import region_facts
from hybridcc.passes.regions.ports import port_registers
from hybridcc.passes.regions.region import Ineligible, Port, Region, Weight
from hybridcc.passes.regions.shape import Graph, Shape, enclosed, graph_of, grow, smallest, split_entry
from hybridcc.ptx import isa, parse
from hybridcc.ptx.nodes import Function, Instruction, Label, Module, Statement

HOT_SHARE = 0.5
WARM_SHARE = 0.1
"""Parts of the estimated time from which a region is called hot or warm in a prompt."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A region's extent before numbering; ``first`` is the statement it begins at."""

    loop: Loop
    shape: Shape | None
    first: int


def find(kernel: Kernel, profile: Profile | None = None) -> tuple[Region, ...]:
    """The regions around the kernel's loops, hottest first; inner before outer where they weigh alike.

    ``profile`` weighs them, one estimated from the text if there is none.

    Regions that must not be rewritten are listed with their reason (``ineligible``), so that a report can say
    so. A kernel without loops has none. Raises PtxSyntaxError for PTX that does not parse, InputError for an
    entry that it does not hold.
    """
    module = parse(kernel.ptx, kernel.source_file or kernel.name)
    return find_in(module, entry_of(module, kernel.entry), kernel, profile)


def body(kernel: Kernel, profile: Profile | None = None) -> Region:
    """The whole kernel as one region: from its first instruction to its only ``ret``. Where it leaves at other places
    too, the region says so (``ineligible``). Raises like find()."""
    module = parse(kernel.ptx, kernel.source_file or kernel.name)
    function = entry_of(module, kernel.entry)
    scoped = cfg_module.build(function, module).scoped
    instructions = [n for n, s in enumerate(scoped.statements) if isinstance(s, Instruction)]
    leaving = [n for n in instructions if _leaves(scoped.statements[n])]
    first, last = instructions[0] if instructions else 0, leaving[-1] if leaving else len(scoped.statements)
    labels = [n for n, s in enumerate(scoped.statements[:first]) if isinstance(s, Label)]
    first = min([first, *labels])
    while last > first and not isinstance(scoped.statements[last - 1], Instruction):
        last -= 1  # the labels that lead to it are its own
    cfg = cfg_module.from_scoped(function, scoped, splits=frozenset(n for n in (first, last) if n))
    shares = (profile or estimate(kernel, cfg)).weights(cfg)
    at = _kernel(module, function, kernel, cfg, shares)
    exit_, entry = cfg.block_of(last), cfg.block_of(first)
    blocks = frozenset(b for b in cfg.reachable if entry <= b) - {exit_}
    whole = bool(leaving) and exit_ in cfg.reachable and cfg.blocks[exit_].first == last and blocks
    region = _region(at, Shape(entry, exit_, blocks) if whole else None, blocks or frozenset({entry}))
    return replace(region, id="body")


def _leaves(statement: Statement) -> bool:
    return isinstance(statement, Instruction) and isa.Effect.EXIT in isa.effects(statement)


def entry_of(module: Module, name: str) -> Function:
    """The kernel of this name. Raises InputError if the module holds no body for it."""
    for function in module.entries:
        if function.name == name:
            return function
    raise InputError(f"the PTX holds no kernel {name}", next_step="name one of its entries")


def find_in(module: Module, function: Function, kernel: Kernel, profile: Profile | None = None) -> tuple[Region, ...]:
    """find(), for a kernel that is parsed already."""
    plain = cfg_module.build(function, module)
    places = _places(graph_of(plain))
    cfg = cfg_module.from_scoped(function, plain.scoped, splits=frozenset(p.first for p in places))
    at = _kernel(module, function, kernel, cfg, (profile or estimate(kernel, cfg)).weights(cfg))
    regions = [_region(at, *_renumber(place, plain, cfg)) for place in places]
    regions.sort(key=lambda r: (-round(r.share, 1), -r.loop_depth, r.entry))
    return tuple(replace(r, id=f"r{n}") for n, r in enumerate(regions))


def parts_of(
    module: Module, function: Function, kernel: Kernel, cfg: ControlFlowGraph, ends: Iterable[tuple[int, int]]
) -> tuple[Region, ...]:
    """The regions from one block of a graph to another, which must be single-entry single-exit shapes: one that is none
    says so (``ineligible``)."""
    at = _kernel(module, function, kernel, cfg, estimate(kernel, cfg).weights(cfg))
    return tuple(_region(at, enclosed(cfg, entry, exit_), frozenset({entry})) for entry, exit_ in ends)


def _kernel(
    module: Module, function: Function, kernel: Kernel, cfg: ControlFlowGraph, weights: tuple[float, ...]
) -> _Kernel:
    return _Kernel(
        graph_of(cfg),
        weights,
        kernel,
        module_obstacle(module, cfg),
        irreducible_blocks(cfg),
        uniform_registers(cfg),
        provenance(cfg, parameter_meanings(kernel, function)),
    )


def _places(graph: Graph) -> list[_Place]:
    """One place for each loop, and one for an unrolled loop together with its remainder."""
    found: list[_Place] = []
    covered: set[int] = set()
    for loop in sorted(graph.loops, key=lambda one: (-_size(graph.cfg, one.blocks), one.header)):
        if loop.header in covered:
            continue
        start = smallest(graph, loop)
        if start is None:
            found.append(_Place(loop, None, graph.cfg.blocks[loop.header].first))
            continue
        shape, first = split_entry(graph, grow(graph, loop, start))
        covered.update(
            other.header for other in graph.loops if other.parent == loop.parent and other.blocks <= shape.blocks
        )
        if all((shape.exit, first) != (p.shape.exit if p.shape else None, p.first) for p in found):
            found.append(_Place(loop, shape, first))
    return found


def _size(cfg: ControlFlowGraph, blocks: Iterable[int]) -> int:
    return sum(len(cfg.instructions(b)) for b in blocks)


def _renumber(place: _Place, old: ControlFlowGraph, new: ControlFlowGraph) -> tuple[Shape | None, frozenset[int]]:
    """The shape, and the loop's blocks, in the numbers of a graph whose blocks are pieces of the old one's."""

    def pieces(blocks: frozenset[int]) -> frozenset[int]:
        spans = [(old.blocks[b].first, old.blocks[b].last) for b in blocks]
        return frozenset(b.index for b in new.blocks if any(f <= b.first < last for f, last in spans))

    loop_blocks = pieces(place.loop.blocks)
    if place.shape is None:
        return None, loop_blocks
    entry = new.block_of(place.first)
    begun_in = old.blocks[place.shape.entry]
    before = frozenset(b.index for b in new.blocks if begun_in.first <= b.first < place.first)
    exit_ = new.block_of(old.blocks[place.shape.exit].first)
    return Shape(entry, exit_, pieces(place.shape.blocks) - before), loop_blocks


def _weight(share: float) -> Weight:
    return "hot" if share >= HOT_SHARE else "warm" if share >= WARM_SHARE else "cold"


@dataclass(frozen=True, slots=True)
class _Kernel:
    """What every region of one kernel is made with."""

    graph: Graph
    weights: tuple[float, ...]
    kernel: Kernel
    obstacle: Ineligible | None
    tangled: frozenset[int]
    uniform: frozenset[str]
    provenance: Provenance


def _region(at: _Kernel, shape: Shape | None, loop_blocks: frozenset[int]) -> Region:
    graph, cfg = at.graph, at.graph.cfg
    blocks = loop_blocks if shape is None else shape.blocks
    share = sum(at.weights[b] for b in blocks)
    header = min(loop_blocks)
    region = Region(
        id="",
        function=cfg.function.name,
        cfg=cfg,
        blocks=tuple(sorted(blocks)),
        entry=header if shape is None else shape.entry,
        exit=EXIT if shape is None else shape.exit,
        live_in=(),
        live_out=(),
        effects=effects_of(i for b in sorted(blocks) for i in cfg.instructions(b)),
        facts=(),
        weight=_weight(share),
        share=share,
        loop_depth=sum(blocks < loop.blocks for loop in graph.loops),
    )
    reason = at.obstacle or _obstacle(cfg, shape, blocks, at.tangled)
    if shape is None or reason is not None:
        return replace(region, ineligible=reason)
    return _with_interface(at, shape, region)


def _obstacle(
    cfg: ControlFlowGraph, shape: Shape | None, blocks: frozenset[int], tangled: frozenset[int]
) -> Ineligible | None:
    found = obstacle(cfg, blocks)
    if found is not None:
        return found
    if blocks & tangled:
        return Ineligible("IRREDUCIBLE", "it holds a cycle that is entered at two places")
    if shape is None:
        return Ineligible("MULTIPLE_EXITS", "control leaves the loop towards places that never meet again")
    return None


def _with_interface(at: _Kernel, shape: Shape, region: Region) -> Region:
    """The region with ports, canonical text and facts."""
    graph, cfg = at.graph, at.graph.cfg
    inside = [i for b in region.blocks for i in cfg.instructions(b)]
    live_in, live_out = port_registers(
        inside,
        live_before(cfg, graph.liveness, cfg.blocks[shape.entry].first),
        graph.liveness.live_in[shape.exit],
    )
    parameters = [d.name for p in cfg.function.parameters for d in p.names]
    text = canonical(cfg, region.order, shape.exit, live_in, live_out, parameters)
    first = cfg.blocks[shape.entry].first
    live_in_ports = tuple(_port(at, r, first) for r in text.inputs)
    ranges = ranges_at(cfg, at.kernel.facts, shape.entry)
    return replace(
        region,
        live_in=live_in_ports,
        live_out=tuple(_port(at, r, None) for r in text.outputs),
        facts=region_facts(live_in_ports, ranges, at.provenance, at.kernel.facts),
        text=text.text,
        key=text.key,
        temporaries=text.temporaries,
        labels=text.labels,
        symbols=text.symbols,
    )


def _port(at: _Kernel, register: str, statement: int | None) -> Port:
    """A port; what it means is said of values that come in, as they are before ``statement``."""
    scoped = at.graph.cfg.scoped
    return Port(
        register,
        scoped.spelling(register),
        scoped.types[register],
        "" if statement is None else at.provenance.note(register, statement),
        register in at.uniform,
    )
