"""splice(): rewrites into a kernel, or a refusal with its reason.

Refusal codes (SpliceRefused.reason): SYNTAX, NON_ASCII, RAW_STATEMENT, UNKNOWN_OPCODE, DIRECTIVE, VARIABLE,
INDIRECT, CALL, LEAVES, VECTOR_REGISTER, PORT_DECLARED, DUPLICATE_NAME, UNKNOWN_PORT, UNDECLARED, JUMP_OUTSIDE,
REGISTER_CLASS, READ_BEFORE_WRITE, OUT_NOT_WRITTEN, NO_EXIT, EFFECT_ORDER, EFFECT_MOVED, EFFECT_COUNT, CONVERGENCE,
GUARD, GUARD_NOT_UNIFORM, NESTING (about the text); INELIGIBLE, OTHER_KERNEL, SCOPE, OVERLAP, NAME_COLLISION
(about the place); EDIT, EDIT_UNKNOWN, EDIT_ESCAPES, EDIT_LIMIT (about declared edits);
OUTSIDE_CHANGED, EDIT_WRONG (the splicer's own proof failed: a defect of hybridcc).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hybridcc.errors import SpliceRefused
from hybridcc.passes.edits import Edit, NewShared
from hybridcc.passes.edits.apply import edited, spelled, with_new_variables
from hybridcc.passes.edits.check import check_edits
from hybridcc.passes.regions.region import Region
from hybridcc.passes.splice.candidate import Candidate, Part
from hybridcc.passes.splice.compose import compose
from hybridcc.passes.splice.flow import check_classes, check_effects, check_flow, graph_of_rewrite
from hybridcc.passes.splice.names import NameScope, names_of_module
from hybridcc.passes.splice.place import Site, exit_label, insert, site_of, with_function
from hybridcc.passes.splice.reading import edits_of, flatten, read
from hybridcc.passes.splice.unchanged import check_outside
from hybridcc.ptx import isa
from hybridcc.ptx.nodes import Function, Instruction, Label, Module, Statement
from hybridcc.ptx.rename import rename_statement


def splice(module: Module, region: Region, text: str) -> Candidate:
    """One rewrite in place of one region of the module it was found in. Raises SpliceRefused."""
    return splice_all(module, [(region, text)])


def splice_all(module: Module, rewrites: Sequence[tuple[Region, str]]) -> Candidate:
    """Rewrites of disjoint regions of one kernel, all at once. Raises SpliceRefused."""
    names = NameScope(names_of_module(module))
    _function(module, rewrites)
    module, rewrites, edits = _with_edits(module, rewrites, names)
    function = _function(module, rewrites)
    assert function.body is not None
    before: dict[int, list[Statement]] = {}
    removed: set[int] = set()
    renamed: dict[int, Statement] = {}
    parts: list[Part] = []
    for region, text in _disjoint(rewrites):
        rewrite = read(text, region)
        cfg = graph_of_rewrite(rewrite, region)
        check_classes(rewrite, cfg)
        check_flow(rewrite, region, cfg)
        check_effects(rewrite, region, cfg)
        site = site_of(region, function.body)
        leaves_to = ""
        if rewrite.guard or not site.falls:
            leaves_to, made = exit_label(region, function.body, site, names)
            if made is not None:
                before.setdefault(made, []).insert(0, Label(leaves_to))
        composed = compose(rewrite, region, cfg, names, leaves_to)
        before.setdefault(site.at, []).extend(composed.statements)
        if composed.part.fallback:
            renamed |= _entered_by_fallback(region, function, site, composed.part.fallback)
        else:
            removed |= site.removed
        parts.append(composed.part)
    new = insert(function, before, frozenset(removed), renamed)
    candidate = Candidate(with_function(module, function, new), function.name, tuple(parts))
    check_outside(module, candidate)
    if not edits:
        return candidate
    changed = edited(candidate.module, function.name, edits, names)
    check_edits(candidate.module, changed, function.name, edits)
    return replace(candidate, module=changed, edits=edits)


def _with_edits(
    module: Module, rewrites: Sequence[tuple[Region, str]], names: NameScope
) -> tuple[Module, Sequence[tuple[Region, str]], tuple[Edit, ...]]:
    """The module and the regions with the variables that the rewrites ask for, and all their edits, each once and with
    the module's own names."""
    edits: dict[Edit, None] = {}
    regions: list[tuple[Region, str]] = []
    for region, text in rewrites:
        asked = edits_of(text)
        module, ready = with_new_variables(module, region, asked, names) if asked else (module, region)
        regions.append((ready, text))
        edits |= dict.fromkeys(spelled(edit, region) for edit in asked)
    pads = [edit.name for edit in edits if not isinstance(edit, NewShared)]
    if len(set(pads)) < len(pads):
        raise SpliceRefused("EDIT", "two rewrites ask for different edits of one variable", where="rewrite")
    return module, regions, tuple(edits)


def _function(module: Module, rewrites: Sequence[tuple[Region, str]]) -> Function:
    wanted = {region.function for region, _ in rewrites}
    for function in module.entries:
        if wanted == {function.name} and all(region.cfg.function == function for region, _ in rewrites):
            return function
    raise SpliceRefused("OTHER_KERNEL", "the regions were not found in this module's kernel")


def _disjoint(rewrites: Sequence[tuple[Region, str]]) -> list[tuple[Region, str]]:
    """The rewrites in order of their place. Raises SpliceRefused for regions that must not be replaced."""
    taken: set[int] = set()
    for region, _ in rewrites:
        if region.ineligible is not None:
            raise SpliceRefused("INELIGIBLE", f"region {region.id} is not to be rewritten: {region.ineligible}")
        if taken & region.statements:
            raise SpliceRefused("OVERLAP", f"region {region.id} overlaps another that is rewritten")
        taken |= region.statements
    return sorted(rewrites, key=lambda one: one[0].cfg.blocks[one[0].entry].first)


def _entered_by_fallback(region: Region, function: Function, site: Site, fallback: str) -> dict[int, Statement]:
    """The original's branches to its own entry, which must not run the guard again."""
    assert function.body is not None
    cfg = region.cfg
    entries = {cfg.scoped.spelling(label) for label in cfg.blocks[region.entry].labels}
    flat = flatten(function.body.statements)
    found: dict[int, Statement] = {}
    for index in site.removed:
        statement = flat[index]
        if isinstance(statement, Instruction) and entries & set(isa.branch_targets(statement)):
            found[index] = rename_statement(statement, lambda name: fallback if name in entries else name)
    return found
