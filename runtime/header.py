"""A C header for one kernel: its entry, its parameters with types and offsets, and what a launch has to keep to.

The parameters are a struct with the layout of the parameter buffer, which the compiler checks, so that a C or C++
program can fill it in and hand it to cuLaunchKernel as CU_LAUNCH_PARAM_BUFFER_POINTER.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hybridcc.runtime.calling import BYTES, field_name

_C_TYPES = {
    ".u8": "uint8_t", ".s8": "int8_t", ".b8": "uint8_t", ".u16": "uint16_t", ".s16": "int16_t", ".b16": "uint16_t",
    ".f16": "uint16_t", ".u32": "uint32_t", ".s32": "int32_t", ".b32": "uint32_t", ".f32": "float", ".u64": "uint64_t",
    ".s64": "int64_t", ".b64": "uint64_t", ".f64": "double",
}  # fmt: skip
_SCALARS = {
    "bool": "uint8_t", "int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "uint16": "uint16_t",
    "int32": "int32_t", "uint32": "uint32_t", "int64": "int64_t", "uint64": "uint64_t", "float32": "float",
    "float64": "double",
}  # fmt: skip
_C_BYTES = {"uint8_t": 1, "int8_t": 1, "uint16_t": 2, "int16_t": 2, "uint32_t": 4, "int32_t": 4, "float": 4}

_ROLES = {
    "data": "address on the device",
    "shape": "extent of axis {axis}, in elements",
    "stride": "step of axis {axis}, in bytes",
    "element_stride": "step of axis {axis}, in elements",
    "nitems": "elements in all",
    "itemsize": "bytes of an element",
    "offset": "of the first element, in elements: 0",
    "meminfo": "not read: 0",
    "parent": "not read: 0",
}


def header(manifest: Mapping[str, Any], stem: str) -> str:
    """``stem`` is the name of the files without a suffix; names in the header begin with it. Equal arguments give
    equal text."""
    name = identifier(stem)
    call = manifest["kernel"]["calling"]
    lines = [
        f"/* {_plain(manifest['kernel']['name'])}, built by hybridcc {manifest['hybridcc']} from "
        f"{_plain(manifest['kernel']['source'] or manifest['kernel']['frontend'])}",
        *_contract(manifest, call),
        " */",
        f"#ifndef HYBRIDCC_{name.upper()}_H",
        f"#define HYBRIDCC_{name.upper()}_H",
        "",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        f'#define {name.upper()}_ENTRY "{call["entry"]}"',
        f"#define {name.upper()}_MAX_THREADS {call['max_threads'] or 1024}",
        f"#define {name.upper()}_PARAMETER_BYTES {call['bytes']}",
        "",
    ]
    return "\n".join([*lines, *_struct(name, call), "#endif", ""])


def identifier(stem: str) -> str:
    """A name that C takes."""
    safe = re.sub(r"\W", "_", stem, flags=re.ASCII)
    return safe if safe[:1].isalpha() or safe[:1] == "_" else f"k_{safe}"


def _contract(manifest: Mapping[str, Any], call: Mapping[str, Any]) -> Iterator[str]:
    yield " *"
    threads = call["max_threads"]
    most = f"at most {threads}" if threads else "what the registers below allow, at most 1024"
    yield f" * Threads in a block: {most}."
    for entry in manifest["architectures"]:
        machine = entry["baseline"]["machine"]
        if entry["selection"]["variant"] != "baseline":
            machine = next(c for c in entry["candidates"] if c["name"] == entry["selection"]["variant"])["machine"]
        yield (
            f" * {entry['arch']}: {entry['selection']['variant']}, {machine['registers']} registers, "
            f"{machine['shared_bytes']} bytes of static shared memory."
        )
    for argument in call["arguments"]:
        if argument["ndim"] is not None and not call["guessed"]:
            order = {"C": "contiguous, last axis fastest", "F": "contiguous, first axis fastest"}
            kept = f" * {argument['name']}: {argument['dtype']}, {order.get(argument['layout'], 'any strides')}"
            yield kept + (", not written." if argument["readonly"] else ".")
    if call["guessed"]:
        yield " * Which parameters are addresses was read from the PTX."


def _struct(name: str, call: Mapping[str, Any]) -> Iterator[str]:
    fields = [(argument, field) for argument in call["arguments"] for field in argument["fields"]]
    if not fields:
        yield f"/* {name} takes no parameters. */"
        return
    yield "typedef struct {"
    end = 0
    members = []
    for argument, field in fields:
        member = identifier(field_name(argument, field))
        if member in members:
            member = f"{member}_{field['offset']}"
        members.append(member)
        if field["offset"] > end:
            yield f"  uint8_t padding_at_{end}[{field['offset'] - end}];"
        yield f"  {_member(argument, field, member)}; /* {_meaning(argument, field)} */"
        end = field["offset"] + field["bytes"]
    yield f"}} {name}_parameters;"
    yield ""
    yield f"#define {name.upper()}_AT(member, bytes) \\"
    yield f"  typedef char {name}_##member##_is_at_##bytes[offsetof({name}_parameters, member) == bytes ? 1 : -1]"
    for member, (_, field) in zip(members, fields, strict=True):
        yield f"{name.upper()}_AT({member}, {field['offset']});"
    yield f"#undef {name.upper()}_AT"


def _member(argument: Mapping[str, Any], field: Mapping[str, Any], member: str) -> str:
    if argument["dtype"] == BYTES:
        return f"uint8_t {member}[{field['bytes']}]"
    own = _SCALARS.get(argument["dtype"]) if field["role"] == "value" else None
    type_ = own if own is not None and _C_BYTES.get(own, 8) == field["bytes"] else _C_TYPES[field["type"]]
    return f"{type_} {member}"


def _meaning(argument: Mapping[str, Any], field: Mapping[str, Any]) -> str:
    if field["role"] == "value":
        return argument["dtype"]
    return _ROLES.get(field["role"], str(field["role"])).format(axis=field["axis"])


def _plain(text: str) -> str:
    """What cannot end a comment."""
    return text.replace("*/", "* /").replace("\n", " ")
