"""Kernels from CUDA C++, by NVRTC in a child process, with no GPU and no host compiler.

``__launch_bounds__`` comes with the PTX; what ``const`` and ``__restrict__`` promise is read from the source text,
where the kernel's parameters are spelled so plainly that there is one way to read them, and is a declared fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from hybridcc.errors import HybridccError, InputError, MissingExtra, UnknownArchitecture
from hybridcc.frontends import guarded, ptx_file
from hybridcc.passes.facts import Fact, Origin, Parameter, Relation
from hybridcc.passes.kernel import Argument, ArrayType, Field, Kernel, ScalarType
from hybridcc.runtime import toolchain

DTYPES = {
    "float": "float32", "double": "float64", "bool": "bool", "char": "int8", "signed char": "int8",
    "unsigned char": "uint8", "short": "int16", "unsigned short": "uint16", "int": "int32", "unsigned": "uint32",
    "unsigned int": "uint32", "long": "int64", "unsigned long": "uint64", "long long": "int64",
    "unsigned long long": "uint64", "int8_t": "int8", "uint8_t": "uint8", "int16_t": "int16", "uint16_t": "uint16",
    "int32_t": "int32", "uint32_t": "uint32", "int64_t": "int64", "uint64_t": "uint64", "size_t": "uint64",
}  # fmt: skip
"""C++ names of arithmetic types on Linux, x86-64."""


@dataclass(frozen=True, slots=True)
class Spelled:
    """A parameter as the source has it. ``type`` is without const and pointer."""

    name: str
    type: str
    pointer: bool
    constant: bool
    restrict: bool


def compile(
    path: str | Path, arch: str, *, include: Sequence[str | Path] = (), instantiate: Sequence[str] = ()
) -> tuple[Kernel, ...]:
    """Every kernel of a ``.cu`` file for ``arch`` ("sm_90"). ``include`` are folders for ``#include``; the file's own
    is always one. ``instantiate`` are name expressions, such as ``scale<float>``, of templates.

    Raises InputError (NVRTC's own message with its line), UnknownArchitecture and ToolchainError.
    """
    path = Path(path)
    raw = guarded.read(path, "CUDA C++")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"cannot be read: {error}", where=str(path), next_step="give a text file") from error
    return from_text(text, arch, name=str(path), include=(path.parent, *include), instantiate=instantiate)


def from_text(
    text: str, arch: str, *, name: str, include: Sequence[str | Path] = (), instantiate: Sequence[str] = ()
) -> tuple[Kernel, ...]:
    """The same for source that is in memory; ``name`` stands in messages."""
    library = toolchain.find("nvrtc")
    request = {
        "source": text,
        "name": name,
        "options": [f"--gpu-architecture={arch}", "--std=c++17", *(f"--include-path={folder}" for folder in include)],
        "expressions": list(instantiate),
        "library": str(library.path),
        "builtins": sorted(map(str, library.path.parent.glob("libnvrtc-builtins.so.*"))),
    }
    answer, _ = guarded.ask("cuda_worker.py", request, tool="NVRTC", where=name)
    if "error" in answer:
        raise _refusal(answer, name, arch)
    expressions = {entry: expression for expression, entry in answer["lowered"].items()}
    frontend = f"nvrtc {library.version}"
    if not re.search(r"\.entry\b", answer["ptx"]):
        raise InputError(
            "holds no kernel",
            where=name,
            next_step="give a __global__ function; a template needs --instantiate 'NAME<TYPE>'",
        )
    source = _plain(text)
    return tuple(
        _kernel(replace(kernel, frontend=frontend), expressions.get(kernel.entry), source)
        for kernel in ptx_file.from_text(answer["ptx"], None, arch, name=name)
    )


def _kernel(kernel: Kernel, expression: str | None, source: str) -> Kernel:
    mangled = re.match(r"_Z(\d+)", kernel.entry)
    identifier = kernel.entry
    if expression is not None:
        identifier = re.split(r"[<(]", expression)[0].strip().lstrip("&").rpartition("::")[2]
    elif mangled:
        identifier = kernel.entry[mangled.end() :][: int(mangled[1])]
    spelled = parameters(source, identifier)
    found = replace(kernel, name=expression or identifier)
    declared = _parameter_types(kernel)
    if spelled is None or len(spelled) != len(declared):
        return found
    found = replace(found, facts=(*kernel.facts, *facts(spelled)))
    arguments = [_argument(each, type_) for each, type_ in zip(spelled, declared, strict=True)]
    known = tuple(argument for argument in arguments if argument is not None)
    return replace(found, arguments=known) if len(known) == len(arguments) else found


def _parameter_types(kernel: Kernel) -> tuple[str, ...]:
    from hybridcc.ptx import parse

    (function,) = (f for f in parse(kernel.ptx, kernel.name).entries if f.name == kernel.entry)
    return tuple("" if variable.names[0].dims else variable.type for variable in function.parameters)


def _argument(spelled: Spelled, ptx_type: str) -> Argument | None:
    dtype = DTYPES.get(spelled.type)
    if dtype is None or not ptx_type:
        return None
    if spelled.pointer:
        return Argument(spelled.name, ArrayType(dtype, 1, readonly=spelled.constant), (Field("data", ptx_type),))
    return Argument(spelled.name, ScalarType(dtype), (Field("value", ptx_type),))


def facts(spelled: Sequence[Spelled]) -> tuple[Fact, ...]:
    """``__restrict__``: what one pointer reaches and the kernel writes, no other does; so a ``const`` one of them
    points to what this launch leaves alone (CUDA C++ Programming Guide, "__restrict__")."""
    found: list[Fact] = []
    pointers = [(Parameter(index, each.name), each) for index, each in enumerate(spelled) if each.pointer]
    for parameter, each in pointers:
        if each.constant and each.restrict:
            found.append(Fact(parameter, Relation.READ_ONLY, None, Origin.DECLARED))
    for (left, one), (right, two) in combinations(pointers, 2):
        # Two that are read only may be the same array.
        if (one.restrict or two.restrict) and not (one.constant and two.constant):
            found.append(Fact(left, Relation.DISJOINT, right, Origin.DECLARED))
    return tuple(found)


def parameters(source: str, identifier: str) -> tuple[Spelled, ...] | None:
    """The parameters of the one kernel of that name; None where there are several, or one is spelled in a way that is
    not understood here."""
    found = [
        match
        for match in re.finditer(rf"\b{re.escape(identifier)}\s*\(([^()]*)\)\s*(?=[{{;])", source)
        if "__global__" in re.split(r"[;{}]", source[: match.start()])[-1]
    ]
    texts = {" ".join(match[1].split()) for match in found}
    if len(texts) != 1:
        return None
    (text,) = texts
    spelled = [_spelled(each) for each in text.split(",")] if text.strip() not in ("", "void") else []
    known = tuple(each for each in spelled if each is not None)
    return known if len(known) == len(spelled) else None


def _spelled(text: str) -> Spelled | None:
    match = re.fullmatch(
        r"\s*(?P<type>[\w\s:]+?)\s*(?:(?P<pointer>\*)\s*(?P<after>(?:(?:const|__restrict__|__restrict)\b\s*)*))?"
        r"(?P<name>\b\w+)\s*",
        text,
    )
    if match is None:
        return None
    words = match["type"].split()
    type_ = " ".join(word.removeprefix("std::") for word in words if word != "const")
    after = (match["after"] or "").split()
    pointer = match["pointer"] is not None
    restrict = any(word.startswith("__restrict") for word in after)
    return Spelled(match["name"], type_, pointer, pointer and "const" in words, restrict)


def _plain(text: str) -> str:
    """Without comments, strings, and what the preprocessor reads."""
    text = re.sub(r"\\\n", " ", text)
    text = re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.DOTALL)
    return "\n".join(_lines(text))


def _lines(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if not line.lstrip().startswith("#"))


def _refusal(answer: dict[str, Any], name: str, arch: str) -> HybridccError:
    said = answer["error"]
    if answer["kind"] == "missing":
        return MissingExtra(f"cuda.bindings is not there: {said}", next_step="pip install cuda-python")
    if "--gpu-architecture" in said or "gpu-arch" in said:
        known = ", ".join(f"sm_{number}" for number in answer["archs"])
        return UnknownArchitecture(f"no architecture {arch!r}", next_step=f"give one of {known}")
    found = re.search(r"^(.*)\((\d+)\): (?:catastrophic )?error: ([^\n]*(?:\n(?!\n)[^\n]*)*)", said, re.MULTILINE)
    if found is None:
        lines = said.strip().splitlines() or [answer["kind"]]
        return InputError(lines[0], where=name, next_step="mend the source")
    return InputError(found[3].rstrip(), where=f"{found[1]}:{found[2]}", next_step="mend the source")
