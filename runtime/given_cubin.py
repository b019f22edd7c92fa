"""What a cubin says of itself: architecture, entries, their resources and parameters, and its machine code's bytes."""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field

from hybridcc.errors import InputError
from hybridcc.runtime import toolchain
from hybridcc.runtime.elf import MAGIC, NOBITS, sections


@dataclass(frozen=True, slots=True)
class Entry:
    """One kernel, bytes throughout but for ``registers``. ``parameters`` are the sizes of its parameters in order."""

    name: str
    registers: int
    stack: int
    shared: int
    parameters: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GivenCubin:
    """``code`` is what runs, by section (machine code, constants, initial values): equal code is the same program."""

    bytes: bytes = field(repr=False)
    arch: str
    entries: tuple[Entry, ...]
    code: tuple[tuple[str, bytes], ...] = field(repr=False)

    def entry(self, name: str | None, where: str) -> Entry:
        """The one of that name; without a name the only one. Raises InputError."""
        known = ", ".join(entry.name for entry in self.entries) or "none"
        if name is None and len(self.entries) != 1:
            raise InputError(f"{len(self.entries)} kernels: {known}", where=where, next_step="name one with --entry")
        found = next((entry for entry in self.entries if name in (None, entry.name)), None)
        if found is None:
            raise InputError(f"no kernel {name} (kernels: {known})", where=where, next_step="name one of these")
        return found


def examine(code: bytes, where: str) -> GivenCubin:
    """Raises InputError for bytes that are no cubin, ToolchainError where cuobjdump is missing."""
    if not code.startswith(MAGIC):
        raise InputError("this is no cubin (it is no ELF file)", where=where, next_step="give a .cubin or PTX text")
    tool = toolchain.find("cuobjdump")
    with tempfile.NamedTemporaryFile(suffix=".cubin", prefix="hybridcc-") as file:
        file.write(code)
        file.flush()
        usage, elf = (_dump(str(tool.path), option, file.name, where) for option in ("-res-usage", "-elf"))
    sections = tuple(_sections(code))
    kernels = {name.removeprefix(_PARAMETERS_OF) for name, _ in sections if name.startswith(_PARAMETERS_OF)}
    parameters = _parameters(elf)
    entries = tuple(
        Entry(found[1], int(found[2]), int(found[3]), int(found[4]), parameters.get(found[1], ()))
        for found in _USAGE.finditer(usage)
        if found[1] in kernels
    )
    return GivenCubin(code, _arch(code, where), entries, sections)


def _dump(tool: str, option: str, path: str, where: str) -> str:
    command, environment = [tool, option, path], toolchain.environment()
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().replace(path, where)
        raise InputError(f"cuobjdump cannot read it: {said}", where=where, next_step="give a cubin as ptxas makes it")
    return done.stdout


_PARAMETERS_OF = ".nv.constant0."
"""The section of a kernel's parameters; no other function has one."""

_USAGE = re.compile(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)")
_INFO = re.compile(r"^\.nv\.info\.(\S+)$", re.MULTILINE)
_PARAMETER = re.compile(r"Ordinal : (0x[0-9a-f]+)\s+Offset\s+: 0x[0-9a-f]+\s+Size\s+: (0x[0-9a-f]+)")


def _parameters(elf: str) -> dict[str, tuple[int, ...]]:
    """Of each kernel: cuobjdump lists them with the section ``.nv.info.NAME``."""
    found: dict[str, tuple[int, ...]] = {}
    heads = list(_INFO.finditer(elf))
    for head, end in zip(heads, [*(h.start() for h in heads[1:]), len(elf)], strict=True):
        sizes = {int(m[1], 16): int(m[2], 16) for m in _PARAMETER.finditer(elf, head.end(), end)}
        if sizes or head[1] not in found:
            found[head[1]] = tuple(sizes[ordinal] for ordinal in sorted(sizes))
    return found


def _arch(code: bytes, where: str) -> str:
    """From the ELF header's flags: their second byte since ABI 8 (CUDA 13), their first before."""
    version, flags = code[8], struct.unpack_from("<I", code, 48)[0]
    number = (flags >> 8) & 0xFF if version >= 8 else flags & 0xFF
    if not 50 <= number <= 200:
        raise InputError("its architecture cannot be read", where=where, next_step="give it with --arch")
    return f"sm_{number}"


_CODE = re.compile(r"\.text\.|\.nv\.constant|\.nv\.global\.init|\.rela?\.text")


def _sections(code: bytes) -> Iterator[tuple[str, bytes]]:
    """(name, content) of what runs, in order of name."""
    yield from sorted((s.name, s.content) for s in sections(code) if _CODE.match(s.name) and s.kind != NOBITS)
