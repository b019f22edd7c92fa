"""The sections of a cubin, which is an ELF-64 file (little-endian; System V ABI, chapter 4)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from hybridcc.ptx.targets import RESERVED_SHARED

MAGIC = b"\x7fELF"
NOBITS = 8
"""The type of a section that has a size and no content (SHT_NOBITS): memory that is not initialised."""

RESERVED_IN_SECTION_FROM = 90


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    kind: int
    size: int
    content: bytes = field(repr=False)


def sections(code: bytes) -> Iterator[Section]:
    """All sections in the file's order. The table: e_shoff at 40, e_shentsize, e_shnum, e_shstrndx at 58."""
    (table,) = struct.unpack_from("<Q", code, 40)
    size, count, names = struct.unpack_from("<HHH", code, 58)
    heads = [struct.unpack_from("<IIQQQQ", code, table + size * number) for number in range(count)]
    for name_at, kind, _flags, _address, offset, length in heads:
        start = heads[names][4] + name_at
        name = code[start : code.index(b"\0", start)].decode("utf-8", "replace")
        yield Section(name, kind, length, b"" if kind == NOBITS else code[offset : offset + length])


def shared_bytes(code: bytes, entry: str, arch: str) -> int:
    """Static shared memory of an entry, which the assemblers' logs do not count where variables are the module's.

    From sm_90 on the section begins with what the driver keeps for itself (ptx/targets.py counts that apart)."""
    size = next((s.size for s in sections(code) if s.name == f".nv.shared.{entry}"), 0)
    reserved = RESERVED_SHARED if int("".join(c for c in arch if c.isdigit())) >= RESERVED_IN_SECTION_FROM else 0
    return max(0, size - reserved)
