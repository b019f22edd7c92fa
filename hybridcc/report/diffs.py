"""Two codes side by side, with what only names tell apart left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest

from hybridcc.report.model import Diff, DiffRow

CONTEXT = 3
"""Lines shown around a change."""
MOST_ROWS = 2000
_REGISTER = re.compile(r"\b(UR|UP|R|P|B)\d+\b")


def ptx(before: str, after: str, entry: str) -> Diff:
    """Two modules' kernels of one name. Registers and labels of the second that stand where the first has others are
    given the first's names."""
    from hybridcc.passes.rewrite.hunks import difference

    found = difference(_body(before, entry), _body(after, entry))
    rows: list[DiffRow] = []
    removed: list[str] = []
    added: list[str] = []
    for line in found.lines:
        if line.mark == "-":
            removed.append(line.text)
        elif line.mark == "+":
            added.append(line.text)
        else:
            rows += _changed(removed, added)
            removed, added = [], []
            rows.append(DiffRow(" ", line.text, line.text))
    rows += _changed(removed, added)
    return Diff("ptx", entry, "registers and labels are matched, not compared", tuple(_near(rows)))


def sass(before: Sequence[str], after: Sequence[str], entry: str) -> Diff:
    """Two listings of instructions. Which register holds what is the assembler's business, and not compared."""
    one, other = ([_REGISTER.sub(r"\1", line) for line in listing] for listing in (before, after))
    rows: list[DiffRow] = []
    for tag, i, j, k, m in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if tag == "equal":
            rows += [DiffRow(" ", a, b) for a, b in zip(before[i:j], after[k:m], strict=True)]
        else:
            rows += _changed(before[i:j], after[k:m])
    return Diff("sass", entry, "register numbers are not compared", tuple(_near(rows)))


def _body(text: str, entry: str) -> str:
    from hybridcc.ptx import parse, scopes
    from hybridcc.ptx.nodes import Comment, Directive
    from hybridcc.ptx.printer import print_statement

    function = next(f for f in parse(text, entry).entries if f.name == entry)
    assert function.body is not None
    kept = (s for s in scopes.flatten(function.body) if not isinstance(s, (Comment, Directive)))
    return "\n".join(print_statement(s) for s in kept)


def _changed(removed: Iterable[str], added: Iterable[str]) -> Iterator[DiffRow]:
    for left, right in zip_longest(removed, added):
        yield DiffRow("-" if right is None else "+" if left is None else "~", left or "", right or "")


def _near(rows: Sequence[DiffRow]) -> Iterator[DiffRow]:
    """The changes and what is around them; of the rest how many lines it is."""
    shown: set[int] = set()
    for at, row in enumerate(rows):
        if row.mark != " ":
            shown.update(range(at - CONTEXT, at + CONTEXT + 1))
    hidden = 0
    for at, row in enumerate(rows[:MOST_ROWS]):
        if at in shown:
            if hidden:
                yield DiffRow("…", f"{hidden} lines alike", "")
                hidden = 0
            yield row
        else:
            hidden += 1
    left = hidden + max(0, len(rows) - MOST_ROWS)
    if left:
        yield DiffRow("…", f"{left} more lines", "")
