"""From PTX text to the prover's Program: scopes resolved, comments and line numbers left out."""

from __future__ import annotations

import hashlib
from math import prod

from hybridcc.errors import InputError
from hybridcc.passes.verify.proof.program import Program, Unsupported, type_width
from hybridcc.ptx import isa, scopes
from hybridcc.ptx.constants import evaluate
from hybridcc.ptx.nodes import (
    Comment,
    Directive,
    Function,
    Instruction,
    Label,
    Module,
    Raw,
    RegisterDeclaration,
    Section,
    Statement,
    Variable,
)

_ABOUT_LINES = frozenset((".loc", ".file", ".section", "@@"))
"""Directives that say where code came from, and nothing about what it does."""


def read_program(module: Module, entry: str | None = None) -> Program:
    """The kernel named ``entry``, or the only one. Raises InputError, Unsupported."""
    function = _entry(module, entry)
    scoped = scopes.resolve(function, module)
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    declared: list[Statement] = []
    for statement in scoped.statements:
        match statement:
            case Instruction():
                instructions.append(statement)
            case Label(name):
                labels[name] = len(instructions)
            case Variable():
                declared.append(statement)
            case Raw(text):
                raise Unsupported(f"a statement that was not understood: {text}", _place(module, statement))
            case Directive(name, arguments) if name in _ABOUT_LINES or (name, arguments) == (".pragma", '"nounroll"'):
                pass
            case Directive(".pragma", arguments):  # used_bytes_mask promises something about the next load
                raise Unsupported(f".pragma {arguments}", _place(module, statement))
            case Comment() | RegisterDeclaration():
                pass
            case _:
                declared.append(statement)
    unknown = [name for name in scoped.unresolved if not isa.is_predefined(name)]
    if unknown:
        raise Unsupported(f"names that nothing declares: {', '.join(unknown[:5])}", function.name)
    if scoped.vectors:
        raise Unsupported("vector registers", function.name)
    parameters = tuple((v.names[0].name, _bits(v)) for v in function.parameters)
    shared = (*_surroundings(module, function), tuple(declared))
    body = repr((shared, instructions, sorted(labels.items()), sorted(scoped.types.items())))
    names = {name for name, _ in parameters}
    return Program(
        function.name,
        tuple(instructions),
        labels,
        dict(scoped.types),
        parameters,
        {name: v.space for name, v in scoped.variables.items() if name not in names},
        shared,
        hashlib.sha256(body.encode()).hexdigest(),
        tuple(_place(module, i) for i in instructions),
    )


def _entry(module: Module, name: str | None) -> Function:
    entries = module.entries
    for function in entries:
        if function.name == name or (name is None and len(entries) == 1):
            return function
    known = ", ".join(f.name for f in entries)
    if name is None:
        raise InputError(f"{len(entries)} kernels and no name", next_step=f"name one of: {known}")
    raise InputError(f"no kernel {name}", next_step=f"kernels here: {known}")


def _surroundings(module: Module, entry: Function) -> tuple[object, ...]:
    """Everything besides the body that can bear on what the kernel does."""
    kept: list[object] = []
    for item in module.items:
        match item:
            case Comment() | Section():
                pass
            case Directive(name) if name in _ABOUT_LINES:
                pass
            case Function() if item is entry:
                kept.append((item.kind, item.name, item.parameters, item.linkage, item.attributes))
            case Function() if item.kind == ".entry":
                pass
            case _:
                kept.append(item)
    return tuple(kept)


def _bits(parameter: Variable) -> int:
    declarator = parameter.names[0]
    sizes = [evaluate(d).value for d in declarator.dims if d]
    try:
        return type_width(parameter.type) * prod(sizes)
    except Unsupported:
        return 0


def _place(module: Module, statement: Statement) -> str:
    source = module.source
    line, _ = source.position(statement.span[0])
    return f"{source.name}:{line}"
