"""How a kernel is called, as a bundle keeps it: enough for a launch with no compiler at hand, and for a C header.

    {"entry": …, "bytes": 48, "guessed": false, "max_threads": 256, "min_blocks": null,
     "arguments": [{"name": "x", "dtype": "float32", "ndim": 1, "layout": "C", "readonly": false,
                    "fields": [{"role": "data", "axis": 0, "type": ".u64", "offset": 0, "bytes": 8}, …]}, …]}

``ndim`` is null for a number; ``dtype`` is "bytes" for a parameter that is a block of bytes. Offsets are those of the
entry's parameter buffer. ``guessed`` says that what is no more than PTX was read for pointers and element types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hybridcc.errors import InputError

if TYPE_CHECKING:
    from hybridcc.passes.kernel import Argument, Kernel
    from hybridcc.ptx.nodes import Function, Variable

BYTES = "bytes"

_SIZE = re.compile(r"\.[a-z]+(\d+)")


def calling(kernel: Kernel) -> dict[str, Any]:
    """JSON-ready. Raises InputError where the kernel's arguments are not the parameters of its entry."""
    function = _entry(kernel)
    layout = tuple(_layout(function.parameters))
    arguments = kernel.arguments or _bare(kernel, function)
    fields = iter(layout)
    described = [_described(argument, fields) for argument in arguments]
    if next(fields, None) is not None or sum(len(a["fields"]) for a in described) != len(layout):
        raise InputError(
            f"{kernel.name} has {len(layout)} parameters, its arguments make another number",
            next_step="report this with the kernel",
        )
    return {
        "entry": kernel.entry,
        "bytes": layout[-1][1] + layout[-1][2] if layout else 0,
        "guessed": not kernel.arguments,
        "max_threads": kernel.launch_bounds.max_threads,
        "min_blocks": kernel.launch_bounds.min_blocks,
        "arguments": described,
    }


def _entry(kernel: Kernel) -> Function:
    from hybridcc.ptx import parse

    return next(f for f in parse(kernel.ptx, kernel.name).entries if f.name == kernel.entry)


def _bare(kernel: Kernel, function: Function) -> Sequence[Argument | None]:
    """Of PTX alone; None for each where one of the parameters is a block of bytes."""
    from hybridcc.passes.verify.bare import with_arguments

    try:
        return with_arguments(kernel).arguments
    except InputError:
        return (None,) * len(function.parameters)


def _described(argument: Argument | None, layout: Iterator[tuple[str, int, int]]) -> dict[str, Any]:
    from hybridcc.passes.kernel import ArrayType

    if argument is None:
        type_, offset, size = next(layout)
        whole = {"role": BYTES, "axis": 0, "type": type_, "offset": offset, "bytes": size}
        return {"name": f"at_{offset}", "dtype": BYTES, "ndim": None, "fields": [whole]}
    fields = [
        {"role": field.role, "axis": field.axis, "type": type_, "offset": offset, "bytes": size}
        for field, (type_, offset, size) in zip(argument.fields, layout, strict=False)
    ]
    common: dict[str, Any] = {"name": argument.name, "dtype": argument.type.dtype, "ndim": None, "fields": fields}
    if isinstance(argument.type, ArrayType):
        array = asdict(argument.type)
        common |= {name: array[name] for name in ("ndim", "layout", "readonly")}
    return common


def _layout(parameters: Sequence[Variable]) -> Iterator[tuple[str, int, int]]:
    """(type, offset, bytes) of each: at its own alignment, else at that of its type (ISA, kernel function parameter
    attributes and .param state space)."""
    end = 0
    for variable in parameters:
        for declared in variable.names:
            found = _SIZE.fullmatch(variable.type)
            unit = int(found[1]) // 8 if found else 8  # .texref and its kin are handles of eight bytes
            unit *= {"": 1, ".v2": 2, ".v4": 4}[variable.vector]
            size = unit
            for extent in declared.dims:
                size *= int(extent or "0", 0)
            align = _alignment(variable) or unit
            offset = -(-end // align) * align
            end = offset + size
            yield variable.type, offset, size


def _alignment(variable: Variable) -> int | None:
    """``.ptr .align 16`` is about what is pointed to."""
    if ".ptr" in (*variable.prefix, *variable.suffix):
        return None
    for word in (*variable.prefix, *variable.suffix):
        if found := re.fullmatch(r"\.align\s+(\d+)", word):
            return int(found[1])
    return None


def field_name(argument: Mapping[str, Any], field: Mapping[str, Any]) -> str:
    """A name for one parameter: ``x_shape0``, or the argument's own where there is one."""
    if len(argument["fields"]) == 1:
        return argument["name"]
    axis = field["axis"] if field["role"] in ("shape", "stride", "element_stride") else ""
    return f"{argument['name']}_{field['role']}{axis}"
