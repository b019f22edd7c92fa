"""Where a module's and a function's variables live: addresses in the windows of memory.py."""

from __future__ import annotations

import re
import struct
from typing import Any

from hybridcc.errors import ExecutionError
from hybridcc.passes.execute.memory import LOCAL_BASE, SHARED_BASE, Heap
from hybridcc.ptx.constants import evaluate
from hybridcc.ptx.nodes import Declarator, Function, Module, Variable
from hybridcc.ptx.types import is_type, width

_OPAQUE = {".texref": 8, ".samplerref": 8, ".surfref": 8}


class Layout:
    """Static addresses. Shared and local variables of every function are laid out apart, as a linker would."""

    def __init__(self, module: Module, heap: Heap, dynamic_shared: int) -> None:
        self.module = module
        self.heap = heap
        self.names: dict[tuple[str, str], int] = {}
        """(function or "", unique name) to address."""
        self.shared_top = SHARED_BASE
        self.local_top = LOCAL_BASE
        self.dynamic: list[tuple[str, str]] = []
        self.functions: dict[int, str] = {}
        for item in module.items:
            if isinstance(item, Variable):
                self.place(item, "")
        for number, function in enumerate(module.functions):
            address = 0x1000 + 16 * number
            self.functions[address] = function.name
            self.names["", function.name] = address
        self.dynamic_shared = dynamic_shared

    def finish(self) -> int:
        """Places dynamic shared memory after everything static; the bytes of shared memory in a block."""
        start = -(-self.shared_top // 16) * 16
        for key in self.dynamic:
            self.names[key] = start
        return (
            start + self.dynamic_shared - SHARED_BASE
            if (self.dynamic or self.dynamic_shared)
            else (self.shared_top - SHARED_BASE)
        )

    def place_body(self, function: Function, scoped: Any) -> None:
        """Places the variables that a function declares in its body."""
        for statement in scoped.statements:
            if isinstance(statement, Variable) and statement.space != ".param":
                self.place(statement, function.name)

    def address(self, spelling: str, name: str, function: str) -> int | None:
        for key in ((function, name), ("", spelling)):
            if key in self.names:
                return self.names[key]
        return None

    def place(self, variable: Variable, function: str) -> None:
        for declarator in variable.names:
            key = (function, declarator.name)
            if key in self.names:
                continue
            size, alignment = size_of(variable, declarator), alignment_of(variable)
            match variable.space:
                case ".shared":
                    if ".extern" in variable.linkage or (size == 0 and declarator.dims):
                        self.dynamic.append(key)
                        continue
                    self.shared_top = _align(self.shared_top, alignment)
                    self.names[key] = self.shared_top
                    self.shared_top += size
                case ".local":
                    self.local_top = _align(self.local_top, alignment)
                    self.names[key] = self.local_top
                    self.local_top += size
                case ".global" | ".const":
                    if ".extern" in variable.linkage:
                        continue
                    content = initial(variable, declarator, size)
                    self.names[key] = self.heap.allocate(
                        declarator.name, content, alignment, writable=variable.space == ".global"
                    )


def call_parameters(function: Function, scoped: Any) -> dict[str, int]:
    """The .param variables of calls in a body and the parameters of a .func: bytes by unique name."""
    found: dict[str, int] = {}
    declared = [s for s in scoped.statements if isinstance(s, Variable)]
    if function.kind == ".func":
        declared += [*function.parameters, *function.returns]
    for variable in declared:
        if variable.space == ".param":
            found.update({d.name: size_of(variable, d) for d in variable.names})
    return found


def _align(top: int, alignment: int) -> int:
    return -(-top // alignment) * alignment


def alignment_of(variable: Variable) -> int:
    for word in (*variable.prefix, *variable.suffix):
        found = re.fullmatch(r"\.align ([0-9]+)", word)
        if found:
            return int(found.group(1))
    return element_size(variable)


def element_size(variable: Variable) -> int:
    """Bytes of one element, a vector counted whole."""
    if variable.type in _OPAQUE or not is_type(variable.type[1:]):
        return 8
    return max(1, width(variable.type[1:]) // 8) * (int(variable.vector[2:]) if variable.vector else 1)


def size_of(variable: Variable, declarator: Declarator) -> int:
    """Bytes; 0 for an array of unknown length."""
    count = 1
    for dim in declarator.dims:
        if not dim:
            values = _values(declarator.initializer)
            count *= len(values)
        else:
            count *= evaluate(dim).value
    return count * element_size(variable)


def _values(initializer: str) -> list[str]:
    return [v.strip() for v in re.sub(r"[{}]", " ", initializer).split(",") if v.strip()]


def initial(variable: Variable, declarator: Declarator, size: int) -> bytes:
    """The bytes of an initialiser, zero where it gives none. Raises ExecutionError for addresses in it."""
    if not declarator.initializer:
        return bytes(size)
    step = element_size(variable) // (int(variable.vector[2:]) if variable.vector else 1)
    content = bytearray()
    for text in _values(declarator.initializer):
        try:
            constant = evaluate(text)
        except ValueError:
            raise ExecutionError(
                "UNSUPPORTED",
                f"the initialiser {text!r} of {declarator.name} cannot be executed",
                next_step="initialise the variable with numbers",
            ) from None
        value = constant.value
        if constant.kind == "decimal" and step == 4:
            value = struct.unpack("<I", struct.pack("<f", struct.unpack("<d", struct.pack("<Q", value))[0]))[0]
        content += (value & ((1 << (8 * step)) - 1)).to_bytes(step, "little")
    return bytes(content[:size]).ljust(size, b"\0")
