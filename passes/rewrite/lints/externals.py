"""Calls that leave the module: printing, and functions that nothing defines."""

from __future__ import annotations

from hybridcc.passes.rewrite.lints.finding import Finding, Subject
from hybridcc.ptx import isa
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Name

RUNTIME = frozenset({"vprintf", "malloc", "free", "__assertfail"})
"""What the CUDA driver itself provides (PTX Writer's Guide to Interoperability, "System Calls")."""


def externals(subject: Subject) -> tuple[Finding, ...]:
    if subject.module is None:
        return ()
    defined = {f.name for f in subject.module.functions if f.body is not None}
    found = []
    for index, instruction in subject.instructions:
        if Effect.CALL not in isa.effects(instruction):
            continue
        called = next((o.text for o in instruction.operands if isinstance(o, Name) and o.text not in defined), None)
        targets = [o.text for o in instruction.operands if isinstance(o, Name)]
        if called is None or any(t in defined for t in targets):
            continue
        if any(t in RUNTIME for t in targets):
            name = next(t for t in targets if t in RUNTIME)
            text = f"{name} is a system call: its arguments go through local memory, and its threads one after another"
            found.append(subject.finding("SYSTEM_CALL", "note", index, text))
        elif targets and not any(t in subject.cfg.scoped.types for t in targets[:1]):
            text = f"{targets[0]} is defined nowhere in this module: the assembler refuses it unless it is linked in"
            found.append(subject.finding("UNRESOLVED", "warning", index, text))
    return tuple(found)
