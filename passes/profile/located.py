"""A kernel whose line information names its own basic blocks: machine code that says which block it came from."""

from __future__ import annotations

from dataclasses import replace

from hybridcc.passes.analysis import cfg as cfg_module
from hybridcc.passes.splice.place import insert, with_function
from hybridcc.ptx import parse
from hybridcc.ptx.nodes import Directive, Function, Item, Module, Section, Statement

FILE = "blocks"


def located(ptx: str, entry: str) -> str:
    """The PTX with one ``.loc`` per block of ``cfg.build``: block b is line b+1 of a file named ``blocks``.

    Its own line information and debug sections are dropped; the instructions stay as they are.
    """
    from hybridcc.passes.regions.find import entry_of

    module = parse(ptx, "<kernel>")
    function = entry_of(module, entry)
    cfg = cfg_module.build(function, module)
    own = frozenset(i for i, s in enumerate(cfg.statements) if isinstance(s, Directive) and s.name == ".loc")
    before: dict[int, list[Statement]] = {
        _first_instruction(cfg, b.index): [Directive(".loc", f"1 {b.index + 1} 0")] for b in cfg.blocks
    }
    marked = with_function(module, function, insert(function, before, own, {}))
    return str(_with_file(marked))


def _first_instruction(cfg: cfg_module.ControlFlowGraph, block: int) -> int:
    from hybridcc.ptx.nodes import Instruction

    b = cfg.blocks[block]
    return next((i for i in range(b.first, b.last) if isinstance(cfg.statements[i], Instruction)), b.first)


def _with_file(module: Module) -> Module:
    """Debug sections and file names out, ours in before the first function."""
    kept: list[Item] = []
    for item in module.items:
        if isinstance(item, Section) or (isinstance(item, Directive) and item.name == ".file"):
            continue
        if isinstance(item, Function) and not any(isinstance(k, Directive) and k.name == ".file" for k in kept):
            kept.append(Directive(".file", f'1 "{FILE}"'))
        kept.append(item)
    return replace(module, items=tuple(kept))
