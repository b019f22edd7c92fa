"""Making declared edits: new variables before a rewrite is spliced, everything else after it.

Refusal codes (SpliceRefused.reason): EDIT (malformed), EDIT_UNKNOWN (no such variable), EDIT_ESCAPES (an access may
be out of sight), EDIT_LIMIT (a size or an alignment), EDIT_WRONG (check.py found a fault of this module's).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, assert_never

from hybridcc.errors import SpliceRefused
from hybridcc.passes.analysis.definitions import definitions
from hybridcc.passes.edits import pad as padding
from hybridcc.passes.edits import preload
from hybridcc.passes.edits.addresses import accesses, find_variable
from hybridcc.passes.edits.declared import Edit, NewShared, Pad, PreloadConst
from hybridcc.passes.execute.layout import size_of
from hybridcc.passes.regions.canonical import declarations
from hybridcc.passes.regions.region import Port, Region
from hybridcc.ptx import scopes
from hybridcc.ptx.nodes import Block, Declarator, Function, Instruction, Label, Module, Name, Statement, Variable
from hybridcc.ptx.targets import STATIC_SHARED_LIMIT

if TYPE_CHECKING:
    from hybridcc.passes.splice.names import NameScope


def spelled(edit: Edit, region: Region) -> Edit:
    """The edit with the variable's own name, where it is named as in the region's text or by an input that holds its
    address. Raises SpliceRefused(EDIT_UNKNOWN) for an input that holds none."""
    if isinstance(edit, NewShared):
        return edit
    if edit.name in region.symbols:
        return replace(edit, name=region.cfg.scoped.spelling(region.symbols[edit.name]))
    if not edit.name.startswith("%"):
        return edit
    port = next((p for k, p in enumerate(region.live_in) if edit.name == f"%in{k}"), None)
    held = address_held(region, port) if port is not None else None
    if held is None:
        raise SpliceRefused("EDIT_UNKNOWN", f"{edit.name} is not known to hold the address of a variable")
    return replace(edit, name=region.cfg.scoped.spelling(held))


def address_held(region: Region, port: Port) -> str | None:
    """The variable (by its unique name) whose address a live-in holds, where all that writes it is one such move."""
    places = definitions(region.cfg).get(port.register, ())
    for place in places if len(places) == 1 else ():
        match region.cfg.statements[place]:
            case Instruction(opcode="mov", operands=(_, Name(text=name))) if region.cfg.scoped.is_variable(name):
                return name
            case _:
                pass
    return None


def with_new_variables(
    module: Module, region: Region, edits: Sequence[Edit], names: NameScope
) -> tuple[Module, Region]:
    """The module with the variables that the rewrite asked for, and the region with their names."""
    symbols = dict(region.symbols)
    for edit in (e for e in edits if isinstance(e, NewShared)):
        if edit.name in symbols:
            raise SpliceRefused("EDIT", f"the region has a {edit.name} of its own; choose another name")
        symbols[edit.name] = names.claim(f"{names.prefix('hccshared')}{edit.name}")
        shape = Declarator(symbols[edit.name], (str(edit.size),))
        variable = Variable(".shared", ".b8", (shape,), prefix=(f".align {edit.alignment}",))
        module = _before_function(module, region.function, variable)
    check_room(module, region.function)
    return module, replace(region, symbols=symbols)


def edited(module: Module, function: str, edits: Sequence[Edit], names: NameScope) -> Module:
    """The module with layouts changed and constants preloaded. The edits name variables as the module does."""
    for edit in edits:
        match edit:
            case Pad():
                module = _padded(module, _function(module, function), edit, names)
            case PreloadConst():
                module = _preloaded(module, _function(module, function), edit, names)
            case NewShared():
                pass
            case _:
                assert_never(edit)
    check_room(module, function)
    return module


def check_room(module: Module, function: str) -> None:
    """Raises SpliceRefused(EDIT_LIMIT) where static shared memory passes what a block may have of it."""
    body = _function(module, function).body
    assert body is not None
    variables = [v for v in (*module.items, *scopes.flatten(body)) if isinstance(v, Variable)]
    used = sum(size_of(v, d) for v in variables if v.space == ".shared" for d in v.names if d.dims != ("",))
    if used > STATIC_SHARED_LIMIT:
        raise SpliceRefused(
            "EDIT_LIMIT", f"{used} bytes of shared memory; a block may have {STATIC_SHARED_LIMIT} declared"
        )


@dataclass(slots=True)
class _Changes:
    """What happens to flattened statements: put ``before`` them, or in their place (``instead``)."""

    registers: dict[str, str] = field(default_factory=dict)
    before: dict[int, list[Statement]] = field(default_factory=dict)
    instead: dict[int, Statement] = field(default_factory=dict)


def _padded(module: Module, function: Function, pad: Pad, names: NameScope) -> Module:
    variable = find_variable(module, function, pad.name)
    found = accesses(module, function, variable)
    padding.check(pad, variable, found)
    scoped = scopes.resolve(function, module)
    changes = _Changes()
    flat = _flat(function)
    prefix = names.prefix("hccpad")

    def fresh(stem: str, kind: str) -> str:
        name = names.claim(f"%{prefix}{stem}{len(changes.registers)}")
        changes.registers[name] = kind
        return name

    for access in found:
        instruction = flat[access.statement]
        assert isinstance(instruction, Instruction)
        own = replace(access, register=scoped.spelling(access.register) if access.register else "")
        kind = scoped.types.get(access.register, "")
        made, new = padding.remapped(pad, variable, own, instruction, kind, fresh)
        changes.before[access.statement] = made
        changes.instead[access.statement] = new
    size = padding.grown(pad, variable.size)
    if not variable.of_module:
        at = next(n for n, s in enumerate(flat) if isinstance(s, Variable) and s.names[0].name == pad.name)
        changes.instead[at] = padding.resized(_variable(flat[at]), size)
    new = _changed(function, changes)
    module = replace(module, items=tuple(new if item is function else item for item in module.items))
    return _resized(module, pad.name, size) if variable.of_module else module


def _resized(module: Module, name: str, size: int) -> Module:
    return replace(
        module,
        items=tuple(
            padding.resized(item, size) if isinstance(item, Variable) and item.names[0].name == name else item
            for item in module.items
        ),
    )


def _variable(statement: Statement) -> Variable:
    assert isinstance(statement, Variable)
    return statement


def _preloaded(module: Module, function: Function, edit: PreloadConst, names: NameScope) -> Module:
    variable = find_variable(module, function, edit.name)
    preload.check(variable)
    found = {access.statement for access in accesses(module, function, variable)}
    prefix = names.prefix("hccload")
    copy = names.claim(f"{prefix}copy")
    scope = preload.copying(variable, copy, lambda name: names.claim(f"{name[0]}{prefix}{name[1:]}"))
    changes = _Changes()
    for number, statement in enumerate(_flat(function)):
        if isinstance(statement, Instruction):
            new = preload.redirected(statement, number in found, variable, copy)
            if new != statement:
                changes.instead[number] = new
    new_function = _changed(function, changes, scope)
    module = replace(module, items=tuple(new_function if item is function else item for item in module.items))
    return _before_function(module, function.name, preload.shared_copy(copy, variable))


def _changed(function: Function, changes: _Changes, first: Block | None = None) -> Function:
    """The function with statements changed; ``first`` stands behind the declarations that the body begins with."""
    from hybridcc.passes.splice.place import insert

    new = insert(function, changes.before, frozenset(), changes.instead)
    assert new.body is not None
    statements: tuple[Statement, ...] = (*declarations(changes.registers), *new.body.statements)
    if first is not None:
        at = next((n for n, s in enumerate(statements) if isinstance(s, (Instruction, Block, Label))), len(statements))
        statements = (*statements[:at], first, *statements[at:])
    return replace(new, body=replace(new.body, statements=statements))


def _before_function(module: Module, function: str, variable: Variable) -> Module:
    at = next(n for n, item in enumerate(module.items) if isinstance(item, Function) and item.name == function)
    return replace(module, items=(*module.items[:at], variable, *module.items[at:]))


def _function(module: Module, name: str) -> Function:
    return next(f for f in module.entries if f.name == name)


def _flat(function: Function) -> list[Statement]:
    assert function.body is not None
    return list(scopes.flatten(function.body))
