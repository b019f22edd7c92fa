"""What ptxas and nvJitLink print, as data: their messages with PTX lines, and the resources each function uses."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Message:
    """One complaint. ``line`` counts from 1 in the PTX text given, 0 where the assembler names none."""

    line: int
    severity: str
    text: str


@dataclass(frozen=True, slots=True)
class Resources:
    """What one entry takes: bytes throughout, but for ``registers`` and ``barriers``.

    ``stack`` is local memory per thread (arrays, call frames and spills); ``spill_stores`` and ``spill_loads``
    count the bytes moved by spill instructions, as ptxas -v does; ``shared`` is static shared memory.
    """

    entry: str
    registers: int
    barriers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int
    constant: int


_MESSAGE = re.compile(r"^(?:ptxas )?(?:.*?, line (\d+); )?(error|fatal|warning)\s*: (.*)$", re.MULTILINE)
"""ptxas's own lines, and those that nvJitLink adds at the link."""
_ENTRY = re.compile(r"^ptxas info\s+: Compiling entry function '([^']+)'", re.MULTILINE)
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"^ptxas info\s+: Used (\d+) registers(.*)$", re.MULTILINE)
_MAXIMUM_VERSION = re.compile(r"Unsupported \.version \S+; current version is '(\d+)\.(\d+)'")


def messages(log: str) -> tuple[Message, ...]:
    """Errors and warnings in the order printed."""
    return tuple(
        Message(int(found[1] or 0), found[2], found[3].strip())
        for found in _MESSAGE.finditer(log)
        if "aborted due to errors" not in found[3]
    )


def maximum_version(log: str) -> str | None:
    """The newest PTX version the assembler knows ("9.0"), if it has just refused a newer one."""
    found = _MAXIMUM_VERSION.search(log)
    return f"{found[1]}.{found[2]}" if found else None


def resources(log: str) -> tuple[Resources, ...]:
    """The verbose log's account of every entry, in its order; functions that are no entries are left out."""
    entries = list(_ENTRY.finditer(log))
    if not entries:
        return ()
    ends = [entry.start() for entry in entries[1:]] + [len(log)]
    return tuple(_account(entry[1], log[entry.end() : end]) for entry, end in zip(entries, ends, strict=True))


def _account(entry: str, part: str) -> Resources:
    frame = _FRAME.search(part, max(0, part.find(f"Function properties for {entry}\n")))
    used = _USED.search(part)
    if frame is None or used is None:
        raise ValueError(f"no account of {entry} in the assembler's log:\n{part}")
    return Resources(
        entry,
        registers=int(used[1]),
        barriers=_count(r"used (\d+) barriers", used[2]),
        stack=int(frame[1]),
        spill_stores=int(frame[2]),
        spill_loads=int(frame[3]),
        shared=_count(r"(\d+) bytes smem", used[2]),
        constant=_count(r"(\d+) bytes cmem\[0\]", used[2]),
    )


def _count(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0
