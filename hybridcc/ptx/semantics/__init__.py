"""What each executable operation computes, defined once over the algebra (hybridcc/ptx/algebra.py).

``decode`` gives the Operation of an instruction that only computes: registers in, registers out. Memory, control
flow and communication between threads belong to whoever runs or proves the program; isa.py says which those are.
"""

from __future__ import annotations

from collections.abc import Callable

from hybridcc.ptx.constants import evaluate
from hybridcc.ptx.nodes import Immediate, Instruction, Operand, Pair, Vector
from hybridcc.ptx.semantics import compare, floating, integer, logic, move, video
from hybridcc.ptx.semantics.operation import Modifiers, Operation, Unsupported, modifiers
from hybridcc.ptx.types import PACKED, PREDICATE, is_float, width

__all__ = [
    "COMPUTED",
    "Modifiers",
    "Operation",
    "Unsupported",
    "decode",
    "destination_operands",
    "explain",
    "modifiers",
    "source_operands",
]


def decode(instruction: Instruction) -> Operation | None:
    """The meaning of an instruction, its guard aside; None where it is no computation that is known here."""
    try:
        return explain(instruction)
    except Unsupported:
        return None


def explain(instruction: Instruction) -> Operation:
    """decode(), raising Unsupported with the reason."""
    build = _MEANINGS.get(instruction.opcode)
    if build is None:
        raise Unsupported(f"{instruction.opcode} is no computation that is defined here")
    try:
        return build(instruction, modifiers(instruction))
    except (ValueError, KeyError, IndexError):
        raise Unsupported(f"{instruction.full_opcode} is not defined here") from None


def destination_operands(instruction: Instruction) -> tuple[Operand, ...]:
    """The registers (and sinks) written by a computation, in the order of Operation.results."""
    return _flat(instruction.operands[0]) if instruction.operands else ()


def source_operands(instruction: Instruction) -> tuple[Operand, ...]:
    """The operands read by a computation, in the order of Operation.sources (lop3's table is no source)."""
    operands = instruction.operands[1:]
    if instruction.opcode == "lop3":
        operands = operands[:3]
    return tuple(part for operand in operands for part in _flat(operand))


def _flat(operand: Operand) -> tuple[Operand, ...]:
    match operand:
        case Vector(items=items):
            return items
        case Pair(first=first, second=second):
            return (first, second)
        case _:
            return (operand,)


def _sources(i: Instruction) -> int:
    return len(source_operands(i))


def _floating(m: Modifiers) -> bool:
    t = m.type
    return is_float(PACKED[t][0] if t in PACKED else t)


def _either(whole: Callable[[str, Modifiers], Operation], opcode: str) -> Callable[[Instruction, Modifiers], Operation]:
    def build(i: Instruction, m: Modifiers) -> Operation:
        return floating.arithmetic(opcode, m, _sources(i)) if _floating(m) else whole(opcode, m)

    return build


def _float(i: Instruction, m: Modifiers) -> Operation:
    return floating.arithmetic(i.opcode, m, _sources(i))


def _mul(i: Instruction, m: Modifiers) -> Operation:
    return floating.arithmetic("mul", m, _sources(i)) if _floating(m) else integer.mul(m)


def _sign(i: Instruction, m: Modifiers) -> Operation:
    return floating.sign_operation(i.opcode, m) if _floating(m) else integer.abs_neg(i.opcode, m)


def _lop3(i: Instruction, m: Modifiers) -> Operation:
    table = i.operands[4]
    if not isinstance(table, Immediate):
        raise Unsupported("lop3 whose table is no constant")
    return logic.lop3(m, evaluate(table.text).value)


def _mov(i: Instruction, m: Modifiers) -> Operation:
    if width(m.type) == PREDICATE:
        return Operation((1,), (1,), lambda alg, s: (s[0],))
    return move.mov(m, len(destination_operands(i)), _sources(i))


def _setp(i: Instruction, m: Modifiers) -> Operation:
    return compare.setp(m, isinstance(i.operands[0], Pair), _sources(i))


def _video(i: Instruction, m: Modifiers) -> Operation:
    return video.simd(i.opcode, m)


_MEANINGS: dict[str, Callable[[Instruction, Modifiers], Operation]] = {
    "add": _either(integer.add_sub, "add"),
    "sub": _either(integer.add_sub, "sub"),
    "addc": lambda i, m: integer.carried("addc", m),
    "subc": lambda i, m: integer.carried("subc", m),
    "mul": _mul,
    "mad": _either(integer.mad, "mad"),
    "madc": lambda i, m: integer.mad("madc", m),
    "mul24": lambda i, m: integer.mul24("mul24", m),
    "mad24": lambda i, m: integer.mul24("mad24", m),
    "sad": lambda i, m: integer.sad(m),
    "div": _either(integer.div_rem, "div"),
    "rem": lambda i, m: integer.div_rem("rem", m),
    "abs": _sign,
    "neg": _sign,
    "min": _either(integer.min_max, "min"),
    "max": _either(integer.min_max, "max"),
    "popc": lambda i, m: integer.counting("popc", m),
    "clz": lambda i, m: integer.counting("clz", m),
    "brev": lambda i, m: integer.counting("brev", m),
    "bfind": lambda i, m: integer.counting("bfind", m),
    "bfe": lambda i, m: integer.bfe(m),
    "bfi": lambda i, m: integer.bfi(m),
    "dp4a": lambda i, m: integer.dot_product("dp4a", m),
    "dp2a": lambda i, m: integer.dot_product("dp2a", m),
    "bmsk": lambda i, m: integer.mask_extend("bmsk", m),
    "szext": lambda i, m: integer.mask_extend("szext", m),
    "fma": _float,
    "rcp": _float,
    "sqrt": _float,
    "rsqrt": _float,
    "sin": _float,
    "cos": _float,
    "ex2": _float,
    "lg2": _float,
    "tanh": _float,
    "copysign": lambda i, m: floating.copysign(m),
    "testp": lambda i, m: floating.testp(m),
    "set": lambda i, m: compare.set_(m, _sources(i)),
    "setp": _setp,
    "selp": lambda i, m: logic.selp(m),
    "slct": lambda i, m: logic.slct(m),
    "and": lambda i, m: logic.bitwise("and", m),
    "or": lambda i, m: logic.bitwise("or", m),
    "xor": lambda i, m: logic.bitwise("xor", m),
    "not": lambda i, m: logic.not_("not", m),
    "cnot": lambda i, m: logic.not_("cnot", m),
    "shl": lambda i, m: logic.shift("shl", m),
    "shr": lambda i, m: logic.shift("shr", m),
    "shf": lambda i, m: logic.funnel(m),
    "lop3": _lop3,
    "prmt": lambda i, m: logic.permute(m),
    "mov": _mov,
    "cvt": lambda i, m: move.cvt(m, _sources(i)),
    "fns": lambda i, m: integer.nth_set(),
    **{opcode: _video for opcode in video.OPCODES},
}

COMPUTED = frozenset(_MEANINGS)
"""The opcodes that have a meaning here, in some form."""
