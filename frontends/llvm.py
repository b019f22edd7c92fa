"""Kernels from LLVM IR, as text or as bitcode: through LLVM's NVPTX target, in a child process.

What the parameters' attributes promise comes with the kernel as facts, declared by whoever wrote the IR: the
optimizer has relied on them already.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import metadata
from itertools import combinations
from pathlib import Path
from typing import Any

from hybridcc.errors import HybridccError, InputError, MissingExtra, UnknownArchitecture
from hybridcc.frontends import guarded, ptx_file
from hybridcc.passes.facts import Fact, Origin, Parameter, Relation
from hybridcc.passes.kernel import Argument, ArrayType, Field, Kernel, ScalarType
from hybridcc.runtime import toolchain

BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
"""How a file of bitcode begins, bare or wrapped (LLVM Bitcode File Format)."""

_TYPES = {
    "float": ("float32", ".f32"), "double": ("float64", ".f64"), "i8": ("int8", ".u8"), "i16": ("int16", ".u16"),
    "i32": ("int32", ".u32"), "i64": ("int64", ".u64"),
}  # fmt: skip
"""LLVM type -> NumPy dtype, and how NVPTX declares a parameter of it."""

_POINTER = (Field("data", ".u64"),)


def compile(path: str | Path, arch: str) -> tuple[Kernel, ...]:
    """Every kernel of a ``.ll`` or ``.bc`` file for ``arch`` ("sm_90").

    Raises InputError (LLVM's own message with its position), UnknownArchitecture and ToolchainError.
    """
    path = Path(path)
    return from_module(guarded.read(path, "LLVM IR"), arch, name=str(path))


def from_module(module: str | bytes, arch: str, *, name: str) -> tuple[Kernel, ...]:
    """The same for IR that is in memory; ``name`` stands in messages."""
    if re.fullmatch(r"sm_\d+[af]?", arch) is None:
        raise _unknown_architecture(arch)
    raw = module.encode() if isinstance(module, str) else module
    request = {
        "module": base64.b64encode(raw).decode(),
        "bitcode": raw.startswith(BITCODE) or name.endswith(".bc"),
        "arch": arch,
        "libdevice": str(toolchain.find("libdevice").path),
    }
    answer, said = guarded.ask("llvm_worker.py", request, tool="LLVM", where=name)
    if f"'{arch}' is not a recognized processor" in said:
        raise _unknown_architecture(arch)
    if "error" in answer:
        raise _refusal(answer, name)
    version = f"llvm (llvmlite {metadata.version('llvmlite')})"
    return tuple(
        _kernel(replace(kernel, frontend=version), answer["kernels"].get(kernel.entry, ()))
        for kernel in ptx_file.from_text(answer["ptx"], None, arch, name=name)
    )


def _kernel(kernel: Kernel, parameters: Sequence[Sequence[Any]]) -> Kernel:
    """With source-level arguments where every parameter is a number or a pointer to numbers."""
    known = [_argument(index, each) for index, each in enumerate(parameters)]
    arguments = tuple(argument for argument in known if argument is not None)
    found = replace(kernel, facts=(*kernel.facts, *facts(parameters)))
    return replace(found, arguments=arguments) if len(arguments) == len(known) else found


def _argument(index: int, described: Sequence[Any]) -> Argument | None:
    name, type_, attributes, element = described
    name = name or f"arg{index}"
    if type_.startswith("ptr"):
        if element not in _TYPES or re.search(r"addrspace\((?!1\))", type_):
            return None
        return Argument(name, ArrayType(_TYPES[element][0], 1, readonly="readonly" in attributes), _POINTER)
    if type_ not in _TYPES:
        return None
    dtype, ptx_type = _TYPES[type_]
    return Argument(name, ScalarType(dtype), (Field("value", ptx_type),))


def facts(parameters: Sequence[Sequence[Any]]) -> tuple[Fact, ...]:
    """What the attributes of a kernel's parameters, each (name, type, attributes, element type), promise (LLVM LangRef,
    "Parameter Attributes"): align, readonly, range, and noalias, by which two pointers never meet."""
    found: list[Fact] = []
    pointers: list[tuple[Parameter, Sequence[str]]] = []
    for index, (name, type_, attributes, _) in enumerate(parameters):
        parameter = Parameter(index, name or f"arg{index}")
        found += _facts(parameter, attributes)
        if type_.startswith("ptr"):
            pointers.append((parameter, attributes))
    for (left, one), (right, two) in combinations(pointers, 2):
        # Two that are only read may be the same array.
        if ("noalias" in one or "noalias" in two) and not ("readonly" in one and "readonly" in two):
            found.append(Fact(left, Relation.DISJOINT, right, Origin.DECLARED))
    return tuple(found)


def _facts(parameter: Parameter, attributes: Sequence[str]) -> Iterator[Fact]:
    for attribute in attributes:
        if found := re.fullmatch(r"align[ (]?(\d+)\)?", attribute):
            yield Fact(parameter, Relation.MULTIPLE_OF, int(found[1]), Origin.DECLARED)
        elif attribute in ("readonly", "readnone") and "noalias" in attributes:
            # readonly alone says only that nothing is written through this pointer; another may reach the same bytes.
            yield Fact(parameter, Relation.READ_ONLY, None, Origin.DECLARED)
        elif found := re.fullmatch(r"range\(i\d+ (-?\d+), (-?\d+)\)", attribute):
            low, high = int(found[1]), int(found[2])
            if low < high:  # otherwise the range wraps round
                yield Fact(parameter, Relation.GE, low, Origin.DECLARED)
                yield Fact(parameter, Relation.LT, high, Origin.DECLARED)


def _refusal(answer: dict[str, Any], name: str) -> HybridccError:
    said = answer["error"]
    if answer["kind"] == "missing":
        return MissingExtra(f"llvmlite is not there: {said}", next_step="pip install llvmlite")
    found = re.search(r"(?:<string>:(\d+):(\d+): )?error: (.*(?:\n(?!\n).*)*)", said)
    if found is None:
        return InputError(" ".join(said.split("\n")).strip(), where=name, next_step="mend the module")
    where = f"{name}:{found[1]}:{found[2]}" if found[1] else name
    return InputError(found[3].rstrip(), where=where, next_step="mend the module")


def _unknown_architecture(arch: str) -> UnknownArchitecture:
    return UnknownArchitecture(f"no architecture {arch!r}", next_step="give one such as sm_80, sm_86 or sm_90")
