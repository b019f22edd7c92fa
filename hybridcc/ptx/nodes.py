"""The PTX syntax tree: data only (printing is printer.py, reading is parser.py, meaning is isa.py).

Nodes compare by content, never by position, so ``parse(str(parse(x))) == parse(x)``. Names keep the
spelling of the source; whether a name is a register, a variable, a label or a special register is decided
by scope (scopes.py), as in PTX itself, where all of them share one spelling.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from hybridcc.ptx.source import NO_SPAN, Source, Span

# --- operands -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Name:
    """A register, special register, variable, parameter, function or label; ``_`` is the sink."""

    text: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Member:
    """One element of a vector or of a special register: ``%tid.x``, ``v.y``; selector without the dot."""

    name: str
    selector: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal or a constant expression, in the source's spelling (constants.py evaluates it)."""

    text: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SymbolOffset:
    """``name+offset`` or ``name-offset`` as a value, of a variable or a register; offset with its sign."""

    name: str
    offset: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Indexed:
    """``name[index]``: an element of a variable as a memory operand; index in the source's spelling."""

    name: str
    index: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Address:
    """``[base]``, ``[base+offset]``: base is a Name or an Immediate, offset an Immediate or None."""

    base: Name | Immediate
    offset: Immediate | None = None
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BracketList:
    """``[tensor, {x, y}]`` and other bracketed operand lists (textures, bulk tensor copies)."""

    items: tuple[Operand, ...]
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, c, d}``"""

    items: tuple[Operand, ...]
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not:
    """``!%p`` as a predicate operand."""

    operand: Name
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Pair:
    """``%p|%q``: two destinations of one instruction (setp, shfl.sync, match, elect)."""

    first: Operand
    second: Operand
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ArgumentList:
    """``(a, b)`` of a call: return values or arguments."""

    items: tuple[Operand, ...]
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


Operand: TypeAlias = (
    Name | Member | Immediate | SymbolOffset | Indexed | Address | BracketList | Vector | Not | Pair | ArgumentList
)


# --- statements -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Guard:
    """``@%p`` or ``@!%p``"""

    name: str
    negated: bool = False
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. ``modifiers`` keep source order and their dots: ``ld`` + (".global", ".f32")."""

    opcode: str
    modifiers: tuple[str, ...] = ()
    operands: tuple[Operand, ...] = ()
    guard: Guard | None = None
    span: Span = field(default=NO_SPAN, compare=False, repr=False)

    @property
    def full_opcode(self) -> str:
        return self.opcode + "".join(self.modifiers)


@dataclass(frozen=True, slots=True)
class Label:
    name: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Comment:
    """``//`` or ``/* */`` text with its marks; ``trailing`` if it stands on the line of what precedes it."""

    text: str
    trailing: bool = False
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RegisterDeclaration:
    """``.reg .v4 .b32 a, %r<12>;``: names with their count, None for a single register."""

    type: str
    names: tuple[tuple[str, int | None], ...]
    vector: str = ""
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Declarator:
    """``name[4][8] = {…}``: dims in source spelling ("" for ``[]``), initializer verbatim or empty."""

    name: str
    dims: tuple[str, ...] = ()
    initializer: str = ""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable in a state space, at module scope, in a body, or as a parameter.

    ``linkage`` is a tuple of ``.visible``, ``.extern``, ``.weak``, ``.common``; ``prefix`` holds every other
    word between the space and the type in source order (``.align 8``, ``.ptr``, ``.global``, ``.attribute(…)``).
    """

    space: str
    type: str
    names: tuple[Declarator, ...]
    linkage: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    vector: str = ""
    suffix: tuple[str, ...] = ()
    """Words between type and name, as in ``.param .u64 .ptr .global .align 4 p``."""
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Directive:
    """Any other directive, word for word: ``.loc 1 2 0``, ``.pragma "nounroll";``, ``.version 9.0``.

    ``terminated`` says whether it ends with a semicolon.
    """

    name: str
    arguments: str = ""
    terminated: bool = False
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BranchTargets:
    """``label: .branchtargets a, b;`` or ``.calltargets``; ``kind`` is the directive."""

    label: str
    kind: str
    targets: tuple[str, ...]
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CallPrototype:
    """``label: .callprototype (…) _ (…) .noreturn;`` with everything after the directive verbatim."""

    label: str
    text: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Raw:
    """A statement this parser does not know, kept word for word up to its semicolon."""

    text: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Block:
    """``{ … }``: a scope. Compared and hashed by content without recursion: ptxas takes a thousand deep."""

    statements: tuple[Statement, ...]
    span: Span = field(default=NO_SPAN, compare=False, repr=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Block):
            return NotImplemented
        return self is other or self._linear() == other._linear()

    def __hash__(self) -> int:
        return hash(tuple(self._linear()))

    def __repr__(self) -> str:
        return f"Block({' '.join(repr(s) for s in self._linear())})"

    def _linear(self) -> list[Statement | str]:
        """All statements inside in source order, braces as strings."""
        found: list[Statement | str] = []
        stack = [iter(self.statements)]
        while stack:
            for statement in stack[-1]:
                if isinstance(statement, Block):
                    found.append("{")
                    stack.append(iter(statement.statements))
                    break
                found.append(statement)
            else:
                stack.pop()
                found.append("}")
        return found


Statement: TypeAlias = (
    Instruction
    | Label
    | Comment
    | RegisterDeclaration
    | Variable
    | Directive
    | BranchTargets
    | CallPrototype
    | Raw
    | Block
)


# --- module ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Function:
    """``.entry`` or ``.func``; ``body`` is None for a declaration.

    ``attributes`` are the directives between the parameter list and the body (``.maxntid 128, 1, 1``),
    ``qualifiers`` those before the name (``.attribute(.unified(1, 2))``).
    """

    kind: str
    name: str
    parameters: tuple[Variable, ...] = ()
    returns: tuple[Variable, ...] = ()
    linkage: tuple[str, ...] = ()
    attributes: tuple[Directive, ...] = ()
    body: Block | None = None
    span: Span = field(default=NO_SPAN, compare=False, repr=False)
    qualifiers: tuple[Directive, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """``.section .debug_info { … }`` with its content word for word."""

    name: str
    text: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


Item: TypeAlias = Function | Variable | Directive | Comment | Section | CallPrototype | Raw


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX file. ``source`` carries the text that spans point into."""

    items: tuple[Item, ...]
    source: Source = field(default=Source("<made>", ""), compare=False, repr=False)

    def __str__(self) -> str:
        from hybridcc.ptx.printer import print_module

        return print_module(self)

    @property
    def functions(self) -> tuple[Function, ...]:
        return tuple(i for i in self.items if isinstance(i, Function))

    @property
    def entries(self) -> tuple[Function, ...]:
        """The kernels that have a body, in source order."""
        return tuple(f for f in self.functions if f.kind == ".entry" and f.body is not None)
