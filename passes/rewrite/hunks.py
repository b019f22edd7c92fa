"""What a rewrite changed, as lines that can be taken back one by one.

A rewrite names its registers as it likes. Lines that do the same in the same order are matched first, by opcode and
kind of operands; the names in them say which of the rewrite's registers is which of the original's. Renamed so, the two
texts are compared line by line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from hybridcc.passes.regions.canonical import declarations
from hybridcc.ptx import isa, parse_statements
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Block, Comment, Instruction, Label, RegisterDeclaration, Statement
from hybridcc.ptx.printer import print_statement
from hybridcc.ptx.rename import names_in, rename_statement


@dataclass(frozen=True, slots=True)
class Line:
    """``mark`` is " " for a line of both texts, "-" for one that the rewrite dropped, "+" for one of its own;
    ``number`` counts the latter two."""

    mark: str
    text: str
    number: int = -1


@dataclass(frozen=True, slots=True)
class Difference:
    """``head`` stands before all lines: guards, edits, and the declarations of both texts."""

    head: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def edits(self) -> int:
        """How many lines were dropped or added."""
        return sum(line.number >= 0 for line in self.lines)

    def text(self, kept: Collection[int]) -> str:
        """The original with these edits only, and without what nothing reads then."""
        there = [line.text for line in self.lines if line.mark == " " or (line.mark == "+") == (line.number in kept)]
        return "\n".join([*self.head, *_alive(there)]) + "\n"

    def is_added(self, number: int) -> bool:
        """Whether that edit is a line of the rewrite's own, and not one that it dropped."""
        return any(line.number == number and line.mark == "+" for line in self.lines)

    def shown(self, kept: Collection[int]) -> tuple[str, ...]:
        """Those edits, one run of neighbours after another."""
        runs: list[list[str]] = []
        before = -2
        for at, line in enumerate(self.lines):
            if line.number in kept:
                if before != at - 1:
                    runs.append([])
                runs[-1].append(f"{line.mark} {line.text}")
                before = at
        return tuple("\n".join(run) for run in runs)


def difference(original: str, rewrite: str) -> Difference:
    """Raises PtxSyntaxError for a text that is no PTX."""
    old, new = parse_statements(original), parse_statements(rewrite)
    old_code, new_code = _code(old), _code(new)
    types_old, types_new = _types(old), _types(new)
    names = _matched(old_code, new_code, types_old, types_new)
    fixed = {**names, **_own(new_code, types_new, names, set(types_old) | _labels(old_code))}
    renamed = [rename_statement(s, lambda name: fixed.get(name, name)) for s in new_code]
    types = {**types_old, **{fixed.get(name, name): kind for name, kind in types_new.items()}}
    comments = [s for s in new if isinstance(s, Comment)]
    head = tuple(_line(s) for s in (*comments, *declarations(types)))
    return Difference(head, tuple(_lines([_line(s) for s in old_code], [_line(s) for s in renamed])))


def _lines(old: list[str], new: list[str]) -> Iterator[Line]:
    number = 0
    for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from (Line(" ", text) for text in old[i:j])
            continue
        for mark, texts in (("-", old[i:j]), ("+", new[k:m])):
            for text in texts:
                yield Line(mark, text, number)
                number += 1


def _alive(lines: Sequence[str]) -> list[str]:
    """The lines without instructions that only write registers which no line reads."""
    held = [(line, parse_statements(line)) for line in lines]
    while True:
        used = {n for _, statements in held for s in _instructions(statements) for n in isa.uses(s)}
        kept = [(line, statements) for line, statements in held if not _idle(statements, used)]
        if len(kept) == len(held):
            return [line for line, _ in kept]
        held = kept


def _instructions(statements: Iterable[Statement]) -> Iterator[Instruction]:
    for statement in statements:
        if isinstance(statement, Block):
            yield from _instructions(statement.statements)
        elif isinstance(statement, Instruction):
            yield statement


def _idle(statements: Sequence[Statement], used: Collection[str]) -> bool:
    match statements:
        case (Instruction() as instruction,):
            written = isa.defs(instruction)
            harmless = not isa.effects(instruction) - {Effect.READ}
            return bool(written) and harmless and not any(n in used or n.startswith("%out") for n in written)
        case _:
            return False


def _code(statements: Iterable[Statement]) -> list[Statement]:
    """What is neither declared nor said. A scope stays one piece: names in it are its own."""
    return [s for s in statements if not isinstance(s, (RegisterDeclaration, Comment))]


def _types(statements: Iterable[Statement]) -> dict[str, str]:
    return {
        name if count is None else f"{name}{k}": s.type
        for s in statements
        if isinstance(s, RegisterDeclaration)
        for name, count in s.names
        for k in range(1 if count is None else count)
    }


def _labels(code: Iterable[Statement]) -> set[str]:
    return {s.name for s in code if isinstance(s, Label)}


def _matched(
    old: Sequence[Statement], new: Sequence[Statement], types_old: dict[str, str], types_new: dict[str, str]
) -> dict[str, str]:
    """The rewrite's names that stand where the original has a name of the same kind, one to one."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    labels_old, labels_new = _labels(old), _labels(new)

    def kind(name: str, types: dict[str, str], labels: set[str]) -> str:
        return types.get(name, "label" if name in labels else "")

    skeletons = [[_skeleton(s, types) for s in code] for code, types in ((old, types_old), (new, types_new))]
    for i, k, count in SequenceMatcher(None, *skeletons, autojunk=False).get_matching_blocks():
        for one, other in zip(old[i : i + count], new[k : k + count], strict=True):
            for was, now in zip(_names(one), _names(other), strict=True):
                same = kind(was, types_old, labels_old) == kind(now, types_new, labels_new) != ""
                if same and now not in names and was not in taken:
                    names[now] = was
                    taken.add(was)
    return names


def _skeleton(statement: Statement, types: dict[str, str]) -> str:
    """The line with every register of the text's own and every label left open."""
    labels = set(isa.branch_targets(statement)) if isinstance(statement, Instruction) else set()
    if isinstance(statement, Label):
        return "label"
    opened = rename_statement(statement, lambda name: "?" if name in types or name in labels else name)
    return print_statement(opened)


def _names(statement: Statement) -> tuple[str, ...]:
    return (statement.name,) if isinstance(statement, Label) else names_in(statement)


def _own(code: Sequence[Statement], types: dict[str, str], names: dict[str, str], taken: set[str]) -> dict[str, str]:
    """New names for what the original has nothing of, where the two texts' names would meet."""
    used = taken | set(names.values())
    found: dict[str, str] = {}
    for name in (*types, *sorted(_labels(code))):
        if name in names:
            continue
        fresh, number = name, 0
        while fresh in used:
            fresh, number = f"{name}_{number}", number + 1
        used.add(fresh)
        found[name] = fresh
    return found


def _line(statement: Statement) -> str:
    return print_statement(statement, "").replace("\t", " ")
