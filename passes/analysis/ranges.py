"""What is known of integer registers at a place: intervals from the ISA, from parameter facts, from branches.

Sound under wraparound: an operation whose exact result might not fit its width is taken to give any value. So
``tid + ntid * ctaid`` is known to be non-negative where it is computed in 64 bits, and not where it is computed in
32, which 2^31 threads overflow. Registers with several definitions are bounded by all of them together, and by
nothing where they depend on themselves (loop counters).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod

from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.passes.analysis.definitions import definitions, reaching
from hybridcc.passes.analysis.dominators import DominatorTree, dominators
from hybridcc.passes.analysis.interval import Interval, Known, whole
from hybridcc.passes.analysis.parameters import parameter_numbers
from hybridcc.passes.analysis.transfer import WIDTHS, transfer
from hybridcc.passes.facts import Fact, Origin, Parameter, Relation, Special
from hybridcc.ptx import isa
from hybridcc.ptx.constants import evaluate
from hybridcc.ptx.nodes import Address, Immediate, Instruction, Member, Name, Operand

SPECIAL_RANGES = {
    "%tid.x": Interval(0, 1023),
    "%tid.y": Interval(0, 1023),
    "%tid.z": Interval(0, 63),
    "%ntid.x": Interval(1, 1024),
    "%ntid.y": Interval(1, 1024),
    "%ntid.z": Interval(1, 64),
    "%ctaid.x": Interval(0, (1 << 31) - 2),
    "%ctaid.y": Interval(0, 65534),
    "%ctaid.z": Interval(0, 65534),
    "%nctaid.x": Interval(1, (1 << 31) - 1),
    "%nctaid.y": Interval(1, 65535),
    "%nctaid.z": Interval(1, 65535),
    "%laneid": Interval(0, 31),
    "WARP_SZ": Interval(32, 32),
}
"""Launch limits of every architecture from sm_30 (CUDA Programming Guide, Technical Specifications; ISA chapter 10)."""

PASSES = 3
"""Rounds over the dominating conditions: one condition may sharpen what another compares with."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left relation right`` of two registers, established by a branch that dominates the place."""

    left: str
    relation: Relation
    right: str


@dataclass(slots=True)
class Ranges:
    """What holds at the top of block ``place`` of one kernel.

    ``comparisons`` are those that dominating branches established between two registers.
    """

    cfg: ControlFlowGraph
    definitions: Mapping[str, tuple[int, ...]]
    parameters: Mapping[str, Known]
    specials: Mapping[str, Known]
    tree: DominatorTree
    place: int
    comparisons: list[Comparison] = field(default_factory=list)
    _here: dict[str, Known] = field(default_factory=dict)
    _sharp: dict[str, Known] = field(default_factory=dict)
    _anywhere: dict[str, Known] = field(default_factory=dict)

    def of(self, register: str) -> Known | None:
        """What is known of an integer register at the place, or None for any other."""
        width = WIDTHS.get(self.cfg.scoped.types.get(register, ""))
        if width is None:
            return None
        if self.dominating_definition(register) is not None:
            return self._register(register, width, frozenset(), here=True)
        return self._reaching(register, width)

    def _reaching(self, register: str, width: int) -> Known:
        """The definitions that reach the place, together: of a loop's counter only the first, above the loop."""
        places = reaching(self.cfg, register, self.cfg.blocks[self.place].first)
        if -1 in places:
            return Known(whole(width))
        alone = len(places) == 1
        found: list[Known] = []
        for place in places:
            statement = self.cfg.statements[place]
            assert isinstance(statement, Instruction)
            block = self.cfg.block_of(place)
            above = alone and block != self.place and self.tree.dominates(block, self.place)
            found.append(self._value(statement, width, frozenset({register}), here=above))
        return reduce(lambda a, b: Known(a.interval.union(b.interval), a.origins | b.origins), found)

    def operand(self, operand: Operand, width: int, path: frozenset[str] = frozenset(), *, here: bool = True) -> Known:
        """An operand read as a signed integer of ``width`` bits."""
        match operand:
            case Immediate(text=text):
                constant = evaluate(text)
                if constant.kind != "int":
                    return Known(whole(width))
                value = constant.value & ((1 << width) - 1)
                value -= (value >> (width - 1)) << width
                return Known(Interval(value, value))
            case Name(text=name) if WIDTHS.get(self.cfg.scoped.types.get(name, "")) == width:
                return self._register(name, width, path, here=here)
            case Name(text=name) if name in self.specials and width >= 32:
                return self.specials[name]
            case Member(name=name, selector=selector) if f"{name}.{selector}" in self.specials and width >= 32:
                return self.specials[f"{name}.{selector}"]
            case _:
                return Known(whole(width))

    def dominating_definition(self, register: str) -> Instruction | None:
        """The only definition of a register, if it has one that always happens on the way to the place."""
        places = self.definitions.get(register, ())
        if len(places) != 1:
            return None
        statement = self.cfg.statements[places[0]]
        block = self.cfg.block_of(places[0])
        if not isinstance(statement, Instruction) or statement.guard is not None or block == self.place:
            return None
        return statement if self.tree.dominates(block, self.place) else None

    def sharpen(self, operand: Operand, bound: Interval, origins: frozenset[Origin], width: int) -> None:
        """Note a bound that holds at the place, for a register whose value there is the one that was compared."""
        if not isinstance(operand, Name) or self.dominating_definition(operand.text) is None:
            return
        if WIDTHS.get(self.cfg.scoped.types.get(operand.text, "")) != width:
            return
        old = self._sharp.get(operand.text, Known(whole(width)))
        new = old.interval.meet(bound)
        if new != old.interval:
            self._sharp[operand.text] = Known(new, old.origins | origins)

    def forget(self) -> None:
        """Derive again, from sharper bounds."""
        self._here.clear()

    def _register(self, register: str, width: int, path: frozenset[str], *, here: bool) -> Known:
        # A bound that holds at the place says nothing of the value that a register had at other times. It may
        # be used for what the value was computed into only where that computation always lies between: where
        # the definition dominates the place.
        definition = self.dominating_definition(register) if here else None
        memo = self._anywhere if definition is None else self._here
        if register in memo:
            return memo[register]
        if register in path:
            return Known(whole(width))
        if definition is not None:
            known = self._value(definition, width, path | {register}, here=True)
            sharp = self._sharp.get(register)
            if sharp is not None:
                bound = known.interval.meet(sharp.interval)
                if bound != known.interval:
                    known = Known(bound, known.origins | sharp.origins)
        else:
            known = self._union(register, width, path | {register})
        memo[register] = known
        return known

    def _union(self, register: str, width: int, path: frozenset[str]) -> Known:
        found: Known | None = None
        for place in self.definitions.get(register, ()):
            statement = self.cfg.statements[place]
            assert isinstance(statement, Instruction)
            one = self._value(statement, width, path, here=False)
            found = one if found is None else Known(found.interval.union(one.interval), found.origins | one.origins)
        return Known(whole(width)) if found is None else found

    def _value(self, instruction: Instruction, width: int, path: frozenset[str], *, here: bool) -> Known:
        """The interval of what one instruction writes to a register of this width."""

        def read(operand: Operand, bits: int) -> Known:
            return self.operand(operand, bits, path, here=here)

        if not isinstance(instruction.operands[0], Name):
            return Known(whole(width))
        if isa.memory_space(instruction) == ".param":
            known = self._loaded(instruction, width)
        else:
            known = transfer(instruction, width, read)
        return known if known.interval != whole(width) else Known(whole(width))

    def _loaded(self, instruction: Instruction, width: int) -> Known:
        address = instruction.operands[-1]
        if (
            WIDTHS.get(instruction.modifiers[-1]) == width
            and isinstance(address, Address)
            and address.offset is None
            and isinstance(address.base, Name)
        ):
            return self.parameters.get(address.base.text, Known(whole(width)))
        return Known(whole(width))


def ranges_at(cfg: ControlFlowGraph, facts: Iterable[Fact], block: int) -> Ranges:
    """What holds at the top of ``block``, given facts about the kernel's parameters and launch."""
    facts = tuple(facts)
    tree = dominators(cfg)
    made = Ranges(cfg, definitions(cfg), _parameters(cfg, facts), special_ranges(cfg, facts), tree, block)
    conditions = [c for above in tree.chain(block) for c in _established(made, above)]
    for _ in range(PASSES):
        for condition in conditions:
            _refine(made, condition)
        made.forget()
    made.comparisons.extend(dict.fromkeys(c for x in conditions for c in _compared(made, x)))
    return made


@dataclass(frozen=True, slots=True)
class Condition:
    """A ``setp`` whose outcome is known."""

    setp: Instruction
    holds: bool


NEGATED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
MIRRORED = {"gt": "lt", "ge": "le"}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def _established(made: Ranges, above: int) -> list[Condition]:
    """The conditions that the branch of a dominating block settles on the only way from it to the place."""
    cfg = made.cfg
    block = cfg.blocks[above]
    instructions = cfg.instructions(above)
    if len(block.successors) != 2 or not instructions or above == made.place:
        return []
    guard = instructions[-1].guard
    taken = [s for s in block.successors if cfg.predecessors[s] == (above,) and made.tree.dominates(s, made.place)]
    if guard is None or len(taken) != 1:
        return []
    jumps = taken[0] != block.fallthrough
    return _settled(made, guard.name, jumps != guard.negated, 0)


def _settled(made: Ranges, predicate: str, holds: bool, depth: int) -> list[Condition]:
    instruction = made.dominating_definition(predicate)
    if instruction is None or depth > 8:
        return []
    names = [o.text for o in instruction.operands[1:] if isinstance(o, Name)]
    match instruction.opcode:
        case "setp" if isinstance(instruction.operands[0], Name) and len(instruction.operands) == 3:
            return [Condition(instruction, holds)]
        case "and" if holds:
            return [c for name in names for c in _settled(made, name, True, depth + 1)]
        case "or" if not holds:
            return [c for name in names for c in _settled(made, name, False, depth + 1)]
        case "not" if len(names) == 1:
            return _settled(made, names[0], not holds, depth + 1)
        case "mov" if len(names) == 1:
            return _settled(made, names[0], holds, depth + 1)
        case _:
            return []


def _reading(condition: Condition) -> tuple[str, str, int] | None:
    """(comparison that holds, "s" or "u", width) of integers; None for floating point."""
    setp = condition.setp
    if len(setp.modifiers) != 2 or setp.modifiers[1] not in WIDTHS:
        return None
    comparison, width = setp.modifiers[0][1:], WIDTHS[setp.modifiers[1]]
    sign = "u" if comparison in UNSIGNED or setp.modifiers[1][1] == "u" else "s"
    comparison = UNSIGNED.get(comparison, comparison)
    if comparison not in NEGATED:
        return None
    return comparison if condition.holds else NEGATED[comparison], sign, width


def _refine(made: Ranges, condition: Condition) -> None:
    reading = _reading(condition)
    if reading is None:
        return
    comparison, sign, width = reading
    left, right = condition.setp.operands[1:]
    a, b = made.operand(left, width), made.operand(right, width)
    if comparison in MIRRORED:
        comparison, left, right, a, b = MIRRORED[comparison], right, left, b, a
    both = a.origins | b.origins | {Origin.INVARIANT}
    if sign == "u" and comparison in ("lt", "le"):
        if b.interval.low < 0:
            return  # an unsigned bound above 2^(width-1) says nothing about the sign
        a = Known(a.interval.meet(Interval(0, b.interval.high)), both)
        made.sharpen(left, a.interval, both, width)
        if a.interval.low < 0:
            return
    strict = 1 if comparison == "lt" else 0
    everything = whole(width)
    if comparison in ("lt", "le"):
        made.sharpen(left, Interval(everything.low, b.interval.high - strict), both, width)
        made.sharpen(right, Interval(a.interval.low + strict, everything.high), both, width)
    elif comparison == "eq":
        made.sharpen(left, b.interval, both, width)
        made.sharpen(right, a.interval, both, width)
    elif comparison == "ne" and b.interval.low == b.interval.high:
        out = b.interval.low
        low = a.interval.low + 1 if a.interval.low == out else a.interval.low
        high = a.interval.high - 1 if a.interval.high == out else a.interval.high
        made.sharpen(left, Interval(low, high), both, width)


def _compared(made: Ranges, condition: Condition) -> list[Comparison]:
    """The comparison of two registers that a condition is, in Fact's relations."""
    reading = _reading(condition)
    left, right = condition.setp.operands[1:]
    if reading is None or not isinstance(left, Name) or not isinstance(right, Name):
        return []
    comparison, sign, width = reading
    if sign == "u" and comparison not in ("eq", "ne"):
        values = made.operand(left, width).interval, made.operand(right, width).interval
        if any(v.low < 0 for v in values):
            return []
    if not all(made.dominating_definition(name.text) for name in (left, right)):
        return []
    match comparison:
        case "lt":
            return [Comparison(left.text, Relation.LT, right.text)]
        case "le":
            return [Comparison(left.text, Relation.LE, right.text)]
        case "gt":
            return [Comparison(right.text, Relation.LT, left.text)]
        case "ge":
            return [Comparison(right.text, Relation.LE, left.text)]
        case "eq":
            return [Comparison(left.text, Relation.EQ, right.text)]
        case _:
            return []


def _parameters(cfg: ControlFlowGraph, facts: Sequence[Fact]) -> dict[str, Known]:
    """Intervals of parameters that facts bound by a number."""
    names = {number: name for name, number in parameter_numbers(cfg.function).items()}
    widths = {d.name: WIDTHS.get(p.type) for p in cfg.function.parameters for d in p.names}
    found: dict[str, Known] = {}
    for fact in facts:
        if isinstance(fact.left, Parameter) and isinstance(fact.right, int) and fact.left.index in names:
            name = names[fact.left.index]
            width = widths[name]
            if width is not None:
                found[name] = _bounded(found.get(name, Known(whole(width))), fact, width)
    return found


def special_ranges(cfg: ControlFlowGraph, facts: Sequence[Fact]) -> dict[str, Known]:
    """What launch limits, the kernel's directives and ``facts`` say of special registers."""
    found = {name: Known(interval) for name, interval in SPECIAL_RANGES.items()}
    for fact in facts:
        if isinstance(fact.left, Special) and isinstance(fact.right, int) and f"%{fact.left.name}" in found:
            name = f"%{fact.left.name}"
            found[name] = _bounded(found[name], fact, 32)
    for directive in cfg.function.attributes:
        if directive.name in (".maxntid", ".reqntid"):
            sizes = [int(part) for part in directive.arguments.replace(",", " ").split() if part.isdigit()]
            for axis, name in enumerate(("%ntid.x", "%ntid.y", "%ntid.z")):
                most = prod(sizes) if directive.name == ".maxntid" else (*sizes, 1, 1, 1)[axis]
                least = 1 if directive.name == ".maxntid" else most
                bound = found[name].interval.meet(Interval(least, most))
                found[name] = Known(bound, found[name].origins | {Origin.FRONTEND})
    for axis in "xyz":
        size, thread = found[f"%ntid.{axis}"], found[f"%tid.{axis}"]
        bound = thread.interval.meet(Interval(0, size.interval.high - 1))
        found[f"%tid.{axis}"] = Known(bound, thread.origins | size.origins)
    return found


def _bounded(known: Known, fact: Fact, width: int) -> Known:
    assert isinstance(fact.right, int)
    everything = whole(width)
    match fact.relation:
        case Relation.GE:
            bound = Interval(fact.right, everything.high)
        case Relation.LE:
            bound = Interval(everything.low, fact.right)
        case Relation.LT:
            bound = Interval(everything.low, fact.right - 1)
        case Relation.EQ:
            bound = Interval(fact.right, fact.right)
        case _:
            return known
    return Known(known.interval.meet(bound), known.origins | {fact.origin})
