"""What can be declared, and reading it from a rewrite's comments."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from hybridcc.errors import SpliceRefused
from hybridcc.ptx.nodes import Comment, Statement
from hybridcc.ptx.source import Source, Span

LINE: Final = re.compile(r"//\s*edit:\s*(.*?)\s*\Z", re.IGNORECASE)
_PAD: Final = re.compile(r"pad\s+(\S+)\s+row\s+(\d+)\s*->\s*(\d+)\Z")
_NEW_SHARED: Final = re.compile(r"new_shared\s+([A-Za-z][A-Za-z0-9_]*)\s+(\d+)\s+(\d+)\Z")
_PRELOAD: Final = re.compile(r"preload_const\s+(\S+)\Z")
FORMS: Final = "pad NAME row OLD->NEW (bytes), new_shared NAME BYTES ALIGNMENT, preload_const NAME"
MOST_EDITS: Final = 8
LARGEST_ALIGNMENT: Final = 128


@dataclass(frozen=True, slots=True)
class Pad:
    """Rows of ``old`` bytes of a shared variable become ``new`` bytes apart; what is within a row stays together."""

    name: str
    old: int
    new: int

    def moved(self, offset: int) -> int:
        """Where the byte at this offset into the variable lies afterwards."""
        return offset + offset // self.old * (self.new - self.old)

    def __str__(self) -> str:
        return f"pad {self.name} row {self.old}->{self.new}"


@dataclass(frozen=True, slots=True)
class NewShared:
    """A variable in shared memory for the rewrite alone."""

    name: str
    size: int
    alignment: int

    def __str__(self) -> str:
        return f"new_shared {self.name} {self.size} {self.alignment}"


@dataclass(frozen=True, slots=True)
class PreloadConst:
    """An array in constant memory, copied to shared memory once a block and read there."""

    name: str

    def __str__(self) -> str:
        return f"preload_const {self.name}"


Edit: TypeAlias = Pad | NewShared | PreloadConst


def is_edit(comment: str) -> bool:
    return LINE.match(comment) is not None


def declared(statements: Iterable[Statement], source: Source) -> tuple[Edit, ...]:
    """The edits that stand ahead of a rewrite's text. Raises SpliceRefused(EDIT) for one that is none of `FORMS`, that
    asks for nothing, or that stands later."""
    found: list[Edit] = []
    begun = False
    for statement in statements:
        if not isinstance(statement, Comment):
            begun = True
            continue
        line = LINE.match(statement.text)
        if line is None:
            continue
        if begun:
            raise _refused(source, statement.span, "edits are declared before the text")
        found.append(_edit(line[1], source, statement.span))
    names = [edit.name for edit in found]
    if len(set(names)) < len(names):
        raise SpliceRefused("EDIT", "a variable is edited once", where="rewrite")
    if len(found) > MOST_EDITS:
        raise SpliceRefused("EDIT", f"at most {MOST_EDITS} edits can be declared", where="rewrite")
    return tuple(found)


def _edit(text: str, source: Source, span: Span) -> Edit:
    if found := _PAD.match(text):
        pad = Pad(found[1], int(found[2]), int(found[3]))
        if not 0 < pad.old < pad.new <= 2 * pad.old:
            raise _refused(source, span, "a row grows, and to twice its size at most")
        return pad
    if found := _NEW_SHARED.match(text):
        new = NewShared(found[1], int(found[2]), int(found[3]))
        if new.size == 0 or not 0 < new.alignment <= LARGEST_ALIGNMENT or new.alignment & (new.alignment - 1):
            raise _refused(source, span, f"a size is positive, an alignment a power of 2 up to {LARGEST_ALIGNMENT}")
        return new
    if found := _PRELOAD.match(text):
        return PreloadConst(found[1])
    raise _refused(source, span, f"an edit is one of: {FORMS}")


def _refused(source: Source, span: Span, sentence: str) -> SpliceRefused:
    line, column = source.position(span[0])
    return SpliceRefused("EDIT", f"{sentence}\n{source.excerpt(span)}", where=f"rewrite:{line}:{column}")
