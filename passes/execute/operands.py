"""Operands to functions that read them from a frame, and names to functions that write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hybridcc.errors import ExecutionError
from hybridcc.passes.execute.frame import Frame, Lanes, as_width
from hybridcc.passes.execute.numpy_floats import UNSIGNED
from hybridcc.ptx import isa
from hybridcc.ptx.constants import evaluate
from hybridcc.ptx.nodes import Immediate, Member, Name, Not, Operand, SymbolOffset

Read = Callable[[Frame, Lanes], Any]
Write = Callable[[Frame, Any, Lanes], None]


def unsupported(what: str, where: str) -> ExecutionError:
    return ExecutionError(
        "UNSUPPORTED", f"{what} cannot be executed", where=where, next_step="run this kernel on a GPU instead"
    )


def immediate(text: str, width: int) -> Any:
    """A literal as a NumPy scalar of ``width`` bits; a decimal literal takes the float format of its width."""
    constant = evaluate(text)
    value = constant.value
    if constant.kind in ("decimal", "f64") and width == 32:
        real = np.uint64(value).view(np.float64)
        return np.float32(real).view(np.uint32)
    if constant.kind == "decimal" and width == 16:
        return np.float16(np.uint64(value).view(np.float64)).view(np.uint16)
    if constant.kind == "f32" and width == 64:
        return np.float64(np.uint32(value).view(np.float32)).view(np.uint64)
    if width == 1:
        return np.bool_(value != 0)
    return UNSIGNED[width](value & ((1 << width) - 1))


class Operands:
    """Compiles the operands of one function's instructions. ``widths`` are its registers' bits (1: predicate)."""

    def __init__(
        self, widths: dict[str, int], symbol: Callable[[str], Callable[[Any], int]], where: Callable[[Any], str]
    ) -> None:
        self.widths = widths
        self.symbol = symbol
        self.where = where

    def read(self, operand: Operand, width: int, node: Any) -> Read:
        match operand:
            case Immediate(text=text):
                value = immediate(text, width)
                return lambda frame, lanes: value
            case Not(operand=inner):
                get = self.read(inner, 1, node)
                return lambda frame, lanes: ~get(frame, lanes)
            case Name(text=name) if name in self.widths:
                return self._register(name, width)
            case Member(name=name, selector=selector) if f"{name}.{selector}" in self.widths:
                return self._register(f"{name}.{selector}", width)
            case Name() | Member() if isa.is_special_register(operand):
                spelled = operand.text if isinstance(operand, Name) else f"{operand.name}.{operand.selector}"

                def special(frame: Frame, lanes: Lanes) -> Any:
                    value, bits = frame.launch.special(spelled, frame, lanes)
                    return as_width(value, bits, width, False)

                return special
            case Name(text=name):
                return self._symbol(name, 0, width)
            case SymbolOffset(name=name, offset=offset):
                return self._symbol(name, int(offset[0] + str(evaluate(offset[1:]).value)), width)
        raise unsupported("this operand", self.where(node))

    def _register(self, name: str, width: int) -> Read:
        have = self.widths[name]
        if have == width:
            return lambda frame, lanes: frame.get(name, lanes)
        if have < width or width == 1:
            return lambda frame, lanes: as_width(frame.get(name, lanes), have, width, False)
        narrow = UNSIGNED[width]
        return lambda frame, lanes: frame.get(name, lanes).astype(narrow)

    def _symbol(self, name: str, offset: int, width: int) -> Read:
        address = self.symbol(name)
        kind, most = UNSIGNED[width], (1 << width) - 1
        return lambda frame, lanes: kind((address(frame.launch) + offset) & most)

    def write(self, operand: Operand, width: int, node: Any, signed: bool = False) -> Write | None:
        """None for the sink."""
        match operand:
            case Name(text="_"):
                return None
            case Name(text=name) if name in self.widths:
                pass
            case Member(name=base, selector=selector) if f"{base}.{selector}" in self.widths:
                name = f"{base}.{selector}"
            case _:
                raise unsupported("a write to this operand", self.where(node))
        want = self.widths[name]
        if want == width:
            return lambda frame, value, lanes: frame.set(name, value, lanes)
        if want == 1 or width == 1:
            raise unsupported("a predicate in the place of a number", self.where(node))
        return lambda frame, value, lanes: frame.set(name, as_width(value, width, want, signed), lanes)
