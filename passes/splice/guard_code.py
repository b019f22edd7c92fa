"""From a guard's conditions to the instructions that test them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

from hybridcc.passes.facts import Relation
from hybridcc.passes.regions.region import Region
from hybridcc.passes.splice.guard import Apart, Comparison, Condition, Product, SameBits, Sum, width_of
from hybridcc.ptx.nodes import Guard, Immediate, Instruction, Member, Name, Operand

_FAILS: Final = {Relation.GE: "lt", Relation.LE: "gt", Relation.LT: "ge", Relation.EQ: "ne"}


@dataclass(slots=True)
class Tests:
    """``instructions`` branch away where a condition fails and fall through where all hold.

    ``registers`` are those they use besides live-ins, with their types.
    """

    instructions: list[Instruction] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)


def tests(conditions: Sequence[Condition], region: Region, fallback: str, fresh: Callable[[str], str]) -> Tests:
    """Tests of all the conditions; ``fresh`` makes a name of its own from a stem such as ``guard0``."""
    made = _Writer(region, fallback, fresh)
    for condition in conditions:
        match condition:
            case Comparison():
                made.comparison(condition)
            case SameBits():
                made.same_bits(condition)
            case Apart():
                made.apart(condition)
            case _:
                assert_never(condition)
    return made.tests


class _Writer:
    def __init__(self, region: Region, fallback: str, fresh: Callable[[str], str]) -> None:
        self.region, self.fallback, self.fresh = region, fallback, fresh
        self.tests = Tests()
        self.wide: dict[str, Operand] = {}

    def comparison(self, asked: Comparison) -> None:
        kind = f".b{asked.width}"
        left = self._register(asked.left) if asked.width == 64 else self._live_in(asked.left[0].names[0])
        if asked.relation is Relation.MULTIPLE_OF:
            low = self._new(kind)
            self._emit("and", (kind,), low, left, Immediate(str(asked.right[0].factor - 1)))
            self._leave_if((".ne", f".s{asked.width}"), low, Immediate("0"))
        else:
            self._leave_if((f".{_FAILS[asked.relation]}", f".s{asked.width}"), left, self._sum(asked.right))

    def same_bits(self, asked: SameBits) -> None:
        bits = self._new(f".b{asked.width}")
        self._emit("mov", (f".b{asked.width}",), bits, self._live_in(asked.name))
        wanted = Immediate("0x" + asked.text[2:])
        self._leave_if((".ne", f".b{asked.width}"), bits, wanted)

    def apart(self, asked: Apart) -> None:
        """Neither range holds the other's first byte: on the circle of addresses that is all, and nothing wraps."""
        left, right = self._register(asked.left), self._register(asked.right)
        for start, length, other in ((left, asked.left_bytes, right), (right, asked.right_bytes, left)):
            distance = self._new(".b64")
            self._emit("sub", (".s64",), distance, other, start)
            self._leave_if((".lt", ".u64"), distance, self._sum(length))

    # --- values of 64 bits ---

    def _register(self, side: Sum) -> Operand:
        value = self._sum(side)
        if not isinstance(value, Immediate):
            return value
        register = self._new(".b64")
        self._emit("mov", (".b64",), register, value)
        return register

    def _sum(self, side: Sum) -> Operand:
        total = self._product(side[0])
        for product in side[1:]:
            total = self._binary("add.s64", total, self._product(product))
        return total

    def _product(self, product: Product) -> Operand:
        if not product.names:
            return Immediate(str(product.factor))
        value = self._wide(product.names[0])
        for name in product.names[1:]:
            value = self._binary("mul.lo.s64", value, self._wide(name))
        return value if product.factor == 1 else self._binary("mul.lo.s64", value, Immediate(str(product.factor)))

    def _binary(self, opcode: str, left: Operand, right: Operand) -> Operand:
        if isinstance(left, Immediate):
            left, right = right, left
        if isinstance(left, Immediate):
            register = self._new(".b64")
            self._emit("mov", (".b64",), register, left)
            left = register
        result = self._new(".b64")
        name, *modifiers = opcode.split(".")
        self._emit(name, tuple(f".{m}" for m in modifiers), result, left, right)
        return result

    def _wide(self, name: str) -> Operand:
        found = self.wide.get(name)
        if found is None:
            found = self.wide[name] = self._widened(name)
        return found

    def _widened(self, name: str) -> Operand:
        if width_of(name, self.region) == 64:
            return self._live_in(name)
        narrow = self._live_in(name) if name.startswith("%in") else self._special(name)
        register = self._new(".b64")
        self._emit("cvt", (".s64", ".s32") if name.startswith("%in") else (".u64", ".u32"), register, narrow)
        return register

    def _special(self, name: str) -> Operand:
        register = self._new(".b32")
        stem, _, axis = name.partition(".")
        self._emit("mov", (".u32",), register, Member(stem, axis))
        return register

    # --- instructions ---

    def _live_in(self, name: str) -> Operand:
        return Name(self.region.live_in[int(name[3:])].spelling)

    def _new(self, kind: str) -> Name:
        name = self.fresh(f"guard{len(self.tests.registers)}")
        self.tests.registers[name] = kind
        return Name(name)

    def _emit(self, opcode: str, modifiers: tuple[str, ...], *operands: Operand) -> None:
        self.tests.instructions.append(Instruction(opcode, modifiers, operands))

    def _leave_if(self, compare: tuple[str, str], left: Operand, right: Operand) -> None:
        predicate = self._new(".pred")
        self._emit("setp", compare, predicate, left, right)
        self.tests.instructions.append(Instruction("bra", (), (Name(self.fallback),), guard=Guard(predicate.text)))
