"""Kernels from MLIR: a ``gpu.module`` (or host code with ``gpu.launch``) to PTX, through NVVM, in a child process."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from hybridcc.errors import HybridccError, InputError, MissingExtra, ToolchainError, UnknownArchitecture
from hybridcc.frontends import guarded, memref
from hybridcc.passes.facts import Fact, Origin, Relation, Special
from hybridcc.passes.kernel import Argument, ArrayType, Field, Kernel, LaunchBounds, ScalarType
from hybridcc.runtime import toolchain

BINDINGS = ("numba_cuda_mlir._mlir", "mlir")
"""Where MLIR's Python bindings may be imported from, the first that is there: the extra's, or a user's own."""

_DTYPES = {
    "f16": "float16", "f32": "float32", "f64": "float64", "i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32",
    "i64": "int64", "index": "int64",
}  # fmt: skip
_PTX_TYPES = {
    "float32": ".f32", "float64": ".f64", "bool": ".u8", "int8": ".u8", "int16": ".u16", "int32": ".u32",
    "int64": ".u64",
}  # fmt: skip
"""How LLVM declares a scalar of each type. It makes an array of bytes of a float16."""


def compile(path: str | Path, arch: str, *, bare: bool = False) -> tuple[Kernel, ...]:
    """Every kernel of a ``.mlir`` file for ``arch`` ("sm_90"). With ``bare``, and for a module that has the attribute
    ``hybridcc.bare_pointers``, a memref is one pointer and not a descriptor; its shape must then be static.

    Raises InputError (MLIR's own message with its line), UnknownArchitecture, MissingExtra and ToolchainError.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError("no such file", where=str(path), next_step="check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", where=str(path), next_step="give a text file of MLIR") from error
    return from_text(text, arch, name=str(path), bare=bare)


def from_text(
    text: str, arch: str, *, name: str, bare: bool = False, bindings: Sequence[str] = ()
) -> tuple[Kernel, ...]:
    """The same for MLIR that is in memory; ``name`` stands in messages, ``bindings`` are tried before BINDINGS."""
    if re.fullmatch(r"sm_\d+[af]?", arch) is None:
        raise _unknown_architecture(arch)
    toolkit = toolchain.find("libdevice").path.parents[2]
    request = {"text": text, "arch": arch, "toolkit": str(toolkit), "bare": bare}
    request["bindings"] = (*bindings, *BINDINGS)
    answer, said = guarded.ask("mlir_worker.py", request, tool="MLIR", where=name)
    if f"'{arch}' is not a recognized processor" in said:
        raise _unknown_architecture(arch)
    if "error" in answer:
        raise _refusal(answer, name)
    kernels = [
        _kernel(described, module["ptx"], arch, name, answer["bare"])
        for module in answer["modules"]
        for described in module["kernels"]
    ]
    if not kernels:
        raise InputError("holds no kernel", where=name, next_step="give a gpu.module with a gpu.func … kernel")
    return tuple(kernels)


def _refusal(answer: dict[str, Any], name: str) -> HybridccError:
    said = answer["error"]
    if answer["kind"] == "missing":
        return MissingExtra(f"no MLIR bindings: {said}", next_step="pip install 'hybridcc[mlir]'")
    if answer["kind"] != "MLIRError":
        return ToolchainError(
            f"MLIR's bindings failed: {answer['kind']}: {said}",
            where=name,
            next_step="use the version of numba-cuda-mlir in constraints.txt",
        )
    found = re.search(r'error: (?:"[^"]*":(\d+):(\d+): )?(.*)', said)
    if found is None:
        return InputError(said.splitlines()[0], where=name, next_step="mend the module")
    where = f"{name}:{found[1]}:{found[2]}" if found[1] else name
    return InputError(found[3].strip(), where=where, next_step="mend the module")


def _unknown_architecture(arch: str) -> UnknownArchitecture:
    return UnknownArchitecture(f"no architecture {arch!r}", next_step="give one such as sm_80, sm_86 or sm_90")


def _kernel(described: dict[str, Any], ptx: str, arch: str, name: str, bare: bool) -> Kernel:
    arguments = tuple(_argument(f"arg{number}", each, bare) for number, each in enumerate(described["arguments"]))
    static = [tuple(each.get("shape", ())) for each in described["arguments"]]
    block = described["block"]
    threads = block[0] * block[1] * block[2] if block else None
    return Kernel(
        name=described["name"],
        entry=described["name"],
        ptx=ptx,
        arch=arch,
        frontend=f"mlir ({_version()})",
        arguments=arguments,
        facts=(*(memref.bare_facts(arguments) if bare else memref.facts(arguments, static)), *_block_facts(block)),
        launch_bounds=LaunchBounds(threads),
        source_file=name,
    )


def _argument(name: str, described: dict[str, Any], bare: bool) -> Argument:
    if "element" in described:
        dtype = _dtype(described["element"], name)
        ndim = len(described["shape"])
        layout = "C" if described["identity"] else "A"
        if bare and not described["identity"]:
            raise _not_passed(described["type"], name)
        return Argument(name, ArrayType(dtype, ndim, layout), memref.BARE if bare else memref.fields(ndim))
    dtype = _dtype(described["type"], name)
    if dtype not in _PTX_TYPES:
        raise _not_passed(described["type"], name)
    return Argument(name, ScalarType(dtype), (Field("value", _PTX_TYPES[dtype]),))


def _dtype(type_: str, name: str) -> str:
    if type_ not in _DTYPES:
        raise _not_passed(type_, name)
    return _DTYPES[type_]


def _not_passed(type_: str, name: str) -> InputError:
    return InputError(f"{name} is of type {type_}, which hybridcc does not pass yet", next_step="use a memref")


def _block_facts(block: list[int] | None) -> tuple[Fact, ...]:
    if not block:
        return ()
    return tuple(
        Fact(Special(f"ntid.{axis}"), Relation.EQ, size, Origin.FRONTEND)
        for axis, size in zip("xyz", block, strict=True)
    )


def _version() -> str:
    try:
        return f"numba-cuda-mlir {metadata.version('numba-cuda-mlir')}"
    except metadata.PackageNotFoundError:
        return "the user's bindings"
