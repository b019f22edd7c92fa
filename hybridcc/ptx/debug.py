"""What the debug sections of a module say about names.

NVPTX numbers a register for DWARF by the bytes of its name (LLVM, NVPTXRegisterInfo::encodeRegisterForDwarf): %rd1
is 0x25726431. Renaming a register without rewriting those bytes makes ptxas generate other code.
"""

from __future__ import annotations

import re

from hybridcc.ptx.nodes import Section

_BYTES = re.compile(r"\.b8\s+([0-9, \t]+)")
_OPERATIONS = frozenset({0x90, 0x92})
"""DW_OP_regx and DW_OP_bregx (DWARF 5, section 7.7.1), each followed by a register number in LEB128."""
_LONGEST = 8
"""Characters of a register name that fit into a DWARF number of 64 bits."""


def register_names(section: Section) -> tuple[str, ...]:
    """Registers whose names a section holds as bytes, in order of appearance."""
    data = bytearray()
    for found in _BYTES.finditer(section.text):
        data.extend(int(n) & 0xFF for n in found[1].split(",") if n.strip())
    names = (_name(data, at + 1) for at, byte in enumerate(data) if byte in _OPERATIONS)
    return tuple(dict.fromkeys(n for n in names if n))


def _name(data: bytearray, at: int) -> str:
    """The name that the LEB128 number at this place spells; "" where it spells none."""
    value = 0
    for place, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << (7 * place)
        if not byte & 0x80:
            break
    spelled = value.to_bytes(10, "big").lstrip(b"\0")
    if len(spelled) > _LONGEST or not re.fullmatch(rb"%[A-Za-z0-9_$]+", spelled):
        return ""
    return spelled.decode()
