"""Literals and constant expressions of PTX (PTX ISA 9.0, section 4.5 and table 5)."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["int", "f32", "f64", "decimal"]

WARP_SIZE = 32


@dataclass(frozen=True, slots=True)
class Constant:
    """``int``: a signed Python integer. ``f32``/``f64``: the bits of an exact literal (0f…, 0d…).

    ``decimal``: the f64 bits of a literal such as 1.5, which takes the type of its instruction.
    """

    kind: Kind
    value: int


_INTEGER = re.compile(r"0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+")
_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.LShift: lambda a, b: a << b if 0 <= b < 64 else 0,
    ast.RShift: lambda a, b: a >> b if 0 <= b < 64 else 0,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}


def evaluate(text: str) -> Constant:
    """The value of an immediate. Raises ValueError where the text is no constant."""
    if text[:2] in ("0f", "0F"):
        return Constant("f32", int(text[2:], 16))
    if text[:2] in ("0d", "0D"):
        return Constant("f64", int(text[2:], 16))
    sign, digits = (-1, text[1:].strip()) if text[:1] == "-" else (1, text)
    plain = digits.removesuffix("U")
    if _INTEGER.fullmatch(plain):
        return Constant("int", sign * _integer(plain))
    if digits[:2] in ("0f", "0F", "0d", "0D"):
        return _negated(evaluate(digits)) if sign < 0 else evaluate(digits)
    if re.fullmatch(r"[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+", digits):
        return Constant("decimal", _f64_bits(sign * float(digits)))
    return Constant("int", _expression(text))


def _negated(constant: Constant) -> Constant:
    width = 32 if constant.kind == "f32" else 64
    return Constant(constant.kind, constant.value ^ (1 << (width - 1)))


def _f64_bits(value: float) -> int:
    import struct

    return int.from_bytes(struct.pack("<d", value), "little")


def _integer(digits: str) -> int:
    if digits[:2] in ("0x", "0X", "0b", "0B"):
        return int(digits, 0)
    if len(digits) > 1 and digits[0] == "0":
        return int(digits, 8)
    return int(digits)


def _expression(text: str) -> int:
    """Integer expressions by Python's grammar, after C's spelling of literals, casts and ``!`` is undone."""
    if len(text) > 1000:
        raise ValueError("a constant expression of over 1000 characters")
    source = re.sub(r"\(\s*\.[su]64\s*\)", " ", text)
    source = re.sub(
        r"0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|[0-9]+U?", lambda m: str(_integer(m.group().rstrip("U"))), source
    )
    source = source.replace("WARP_SZ", str(WARP_SIZE)).replace("&&", " and ").replace("||", " or ")
    source = re.sub(r"!(?!=)", " not ", source)
    try:
        tree = ast.parse(source.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"{text!r} is no constant expression") from None
    return _fold(tree.body, text)


def _fold(node: ast.expr, text: str) -> int:
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _wrap(_OPERATORS[type(op)](_fold(left, text), _fold(right, text)))
        case ast.BinOp(left=left, op=ast.Div() | ast.Mod() as op, right=right):
            return _divide(_fold(left, text), _fold(right, text), isinstance(op, ast.Mod), text)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_fold(inner, text)
        case ast.UnaryOp(op=ast.UAdd(), operand=inner):
            return _fold(inner, text)
        case ast.UnaryOp(op=ast.Invert(), operand=inner):
            return ~_fold(inner, text)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return int(_fold(inner, text) == 0)
        case ast.BoolOp(op=ast.And(), values=values):
            return int(all([_fold(v, text) for v in values]))
        case ast.BoolOp(op=ast.Or(), values=values):
            return int(any([_fold(v, text) for v in values]))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compare(op, _fold(left, text), _fold(right, text), text)
    raise ValueError(f"{text!r} is no constant expression that this evaluates")


def _wrap(value: int) -> int:
    """Into the signed 64-bit range, as PTX computes constants."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63) if not -(1 << 63) <= value < 1 << 64 else value


def _divide(a: int, b: int, remainder: bool, text: str) -> int:
    if b == 0:
        raise ValueError(f"{text!r} divides by zero")
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a - b * quotient if remainder else quotient


def _compare(op: ast.cmpop, a: int, b: int, text: str) -> int:
    match op:
        case ast.Lt():
            return int(a < b)
        case ast.LtE():
            return int(a <= b)
        case ast.Gt():
            return int(a > b)
        case ast.GtE():
            return int(a >= b)
        case ast.Eq():
            return int(a == b)
        case ast.NotEq():
            return int(a != b)
    raise ValueError(f"{text!r} is no constant expression that this evaluates")
