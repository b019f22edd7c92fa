"""The proof that edits changed what was declared and nothing else. It shares nothing with apply.py.

Two bodies are walked side by side. A statement that only the edited one has must write registers that the other does
not have and touch nothing else; what is left must be the same statement by statement, but for the accesses of an
edited variable. The address that each of those uses is then found out by running what was put before it on the
executor, for every offset into the variable that the access can have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hybridcc.errors import ExecutionError, SpliceRefused
from hybridcc.passes.edits.declared import Edit, Pad, PreloadConst
from hybridcc.passes.execute.layout import alignment_of, size_of
from hybridcc.ptx import isa, parse
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import (
    Address,
    Block,
    Function,
    Immediate,
    Indexed,
    Instruction,
    Module,
    Name,
    RegisterDeclaration,
    Statement,
    Variable,
)
from hybridcc.ptx.printer import print_statement
from hybridcc.ptx.rename import names_in, rename_statement

THREADS = 128


@dataclass(frozen=True, slots=True)
class _Pair:
    """A statement of both bodies, with what stands before it in the edited one alone."""

    before: Statement
    after: Statement
    inserted: tuple[Instruction, ...]


def check_edits(before: Module, after: Module, function: str, edits: Sequence[Edit]) -> None:
    """Raises SpliceRefused(EDIT_WRONG) unless ``after`` is ``before`` with those edits made and no other change."""
    pads = {edit.name: edit for edit in edits if isinstance(edit, Pad)}
    constants = {edit.name for edit in edits if isinstance(edit, PreloadConst)}
    copies = _check_items(before, after, function, pads, len(constants))
    old, new = (_entry(module, function) for module in (before, after))
    assert old.body is not None
    assert new.body is not None
    kinds = _declared(new.body)
    mine = frozenset(kinds) - frozenset(_declared(old.body))
    kept, scopes_ = _without_copies(new.body, len(constants))
    for scope in scopes_:
        _check_copy(scope, before, copies)
    back = _sources(scopes_)
    if set(back.values()) != constants:
        raise _wrong("which constants are copied")
    reaches = _Reaches(old)
    for pair in _pairs(old.body, kept, mine):
        touched = reaches.by_access(pair.before)
        _check_pair(pair, pads, back, touched, kinds, before, old)


class _Reaches:
    """Which variables an access's address may be made from: everything that goes into it, but for what is loaded."""

    def __init__(self, function: Function) -> None:
        assert function.body is not None
        self.sources: dict[str, set[str]] = {}
        for statement in _flat(function.body.statements):
            if isinstance(statement, Instruction) and Effect.READ not in isa.effects(statement):
                for name in isa.defs(statement):
                    self.sources.setdefault(name, set()).update(names_in(statement))

    def by_access(self, statement: Statement) -> frozenset[str]:
        if not isinstance(statement, Instruction) or not isa.effects(statement) & {Effect.READ, Effect.WRITE}:
            return frozenset()
        waiting = [n for o in statement.operands if isinstance(o, (Address, Indexed)) for n in _names_of(o)]
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting.extend(self.sources.get(name, ()))
        return frozenset(seen)


def _names_of(operand: Address | Indexed) -> tuple[str, ...]:
    if isinstance(operand, Indexed):
        return (operand.name,)
    return (operand.base.text,) if isinstance(operand.base, Name) else ()


def _check_items(
    before: Module, after: Module, function: str, pads: dict[str, Pad], copies: int
) -> dict[str, Variable]:
    """The module's items are the same but for sizes of padded variables and new variables in shared memory; gives the
    latter by name. (Those that a rewrite asked for are in ``before`` as well.)"""
    names = {d.name for v in before.items if isinstance(v, Variable) for d in v.names}
    extra = [v for v in after.items if isinstance(v, Variable) and v.names[0].name not in names]
    if len(extra) != copies or any(v.space != ".shared" or v.linkage for v in extra):
        raise _wrong("the module's variables")
    rest = [item for item in after.items if not any(item is v for v in extra)]
    if len(rest) != len(before.items):
        raise _wrong("the module's items")
    for was, now in zip(before.items, rest, strict=True):
        if isinstance(was, Function) and isinstance(now, Function) and was.name == function:
            if replace(was, body=None) != replace(now, body=None):
                raise _wrong("the kernel's head")
        elif isinstance(was, Variable) and isinstance(now, Variable) and was.names[0].name in pads:
            _check_growth(was, now, pads[was.names[0].name])
        elif was != now:
            raise _wrong("another part of the module")
    return {v.names[0].name: v for v in extra}


def _check_growth(was: Variable, now: Variable, pad: Pad) -> None:
    size, more = size_of(was, was.names[0]), size_of(now, now.names[0])
    same = (was.space, was.linkage, was.names[0].name) == (now.space, now.linkage, now.names[0].name)
    if not same or size % pad.old or more != size + size // pad.old * (pad.new - pad.old):
        raise _wrong(f"the size of {pad.name}")
    if alignment_of(now) < alignment_of(was):
        raise _wrong(f"the alignment of {pad.name}")


def _declared(body: Block) -> dict[str, str]:
    """Registers with their types, ranges expanded."""
    return {
        name if count is None else f"{name}{k}": statement.type
        for statement in _flat(body.statements)
        if isinstance(statement, RegisterDeclaration)
        for name, count in statement.names
        for k in range(1 if count is None else count)
    }


def _flat(statements: Sequence[Statement]) -> Iterator[Statement]:
    for statement in statements:
        if isinstance(statement, Block):
            yield from _flat(statement.statements)
        else:
            yield statement


def _without_copies(body: Block, copies: int) -> tuple[tuple[Statement, ...], tuple[Block, ...]]:
    """The body without the scopes that copy constants, which are its first, and those."""
    scopes_ = [s for s in body.statements if isinstance(s, Block)][:copies]
    if len(scopes_) != copies:
        raise _wrong("the number of copies")
    first = next((n for n, s in enumerate(body.statements) if isinstance(s, (Instruction, Block))), 0)
    if copies and list(body.statements[first : first + copies]) != scopes_:
        raise _wrong("what stands before the copies")
    return tuple(s for s in body.statements if not any(s is scope for scope in scopes_)), tuple(scopes_)


def _sources(scopes_: Sequence[Block]) -> dict[str, str]:
    """From the copy's name to the constant's: the two whose addresses the scope takes."""
    return {_taken(scope)[1]: _taken(scope)[0] for scope in scopes_}


def _taken(scope: Block) -> tuple[str, str]:
    """(constant, copy)."""
    registers = _declared(scope)
    names = [
        i.operands[1].text
        for i in _flat(scope.statements)
        if isinstance(i, Instruction) and i.opcode == "mov" and isinstance(i.operands[1], Name)
        if i.operands[1].text not in registers
    ]
    if len(names) != 2:
        raise _wrong("what a copy reads and writes")
    return names[0], names[1]


def _check_copy(scope: Block, module: Module, copies: dict[str, Variable]) -> None:
    """The scope, run alone by blocks of several shapes, makes its variable the constant's bytes and does no more."""
    constant, copy = _taken(scope)
    variable = next(v for v in module.items if isinstance(v, Variable) and v.names[0].name == constant)
    size = size_of(variable, variable.names[0])
    held = copies.get(copy)
    if held is None or size_of(held, held.names[0]) != size or alignment_of(held) < alignment_of(variable):
        raise _wrong(f"where {constant} is copied to")
    barriers = [i for i in _flat(scope.statements) if isinstance(i, Instruction) and i.opcode == "bar"]
    if len(barriers) != 1 or not isinstance(scope.statements[-1], Instruction) or scope.statements[-1] != barriers[0]:
        raise _wrong("the barrier behind a copy")
    pattern = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    filled = replace(
        variable, type=".b8", vector="", linkage=(),
        names=(replace(variable.names[0], dims=(str(size),), initializer="{" + ", ".join(map(str, pattern)) + "}"),),
    )  # fmt: skip
    for shape in ((1, 1, 1), (32, 1, 1), (7, 3, 2), (256, 1, 1)):
        text = f"""{_head(module)}
{print_statement(filled)}
.shared .align 16 .b8 {copy}[{size}];
.visible .entry copied(.param .u64 out)
{{
    .reg .pred %hcc_more; .reg .b32 %hcc_v, %hcc_i, %hcc_b; .reg .b64 %hcc_o, %hcc_w;
{print_statement(scope)}
    ld.param.u64 %hcc_o, [out];
    mov.u32 %hcc_i, 0;
hcc_again:
    mov.u32 %hcc_b, {copy};
    add.u32 %hcc_b, %hcc_b, %hcc_i;
    ld.shared.u8 %hcc_v, [%hcc_b];
    cvt.u64.u32 %hcc_w, %hcc_i;
    add.u64 %hcc_w, %hcc_w, %hcc_o;
    st.global.u8 [%hcc_w], %hcc_v;
    add.u32 %hcc_i, %hcc_i, 1;
    setp.lt.u32 %hcc_more, %hcc_i, {size};
    @%hcc_more bra hcc_again;
    ret;
}}
"""
        out = np.zeros(size, np.uint8)
        _run(text, 1, shape, out, races=False)  # all threads write the same bytes to `out`, to be looked at
        if not np.array_equal(out, pattern):
            raise _wrong(f"the bytes that {constant}'s copy holds in a block of {shape}")


def _pairs(old: Block, kept: Sequence[Statement], mine: frozenset[str]) -> Iterator[_Pair]:
    was = iter(_flat(old.statements))
    inserted: list[Instruction] = []
    for now in _flat(kept):
        if isinstance(now, RegisterDeclaration) and {n for n, _ in now.names} <= mine:
            continue
        if isinstance(now, Instruction) and isa.defs(now) and set(isa.defs(now)) <= mine:
            if isa.effects(now) or now.guard is not None:
                raise _wrong(f"what {print_statement(now).strip()} does")
            inserted.append(now)
            continue
        before = next(was, None)
        if before is None:
            raise _wrong("the number of statements")
        yield _Pair(before, now, tuple(inserted))
        inserted = []
    if next(was, None) is not None or inserted:
        raise _wrong("the number of statements")


def _check_pair(
    pair: _Pair, pads: dict[str, Pad], back: dict[str, str], touched: frozenset[str], kinds: dict[str, str],
    module: Module, function: Function,
) -> None:  # fmt: skip
    after = pair.after
    if isinstance(pair.before, Variable) and isinstance(after, Variable) and pair.before.names[0].name in pads:
        _check_growth(pair.before, after, pads[pair.before.names[0].name])
        return
    if isinstance(after, Instruction) and isinstance(pair.before, Instruction):
        renamed = rename_statement(after, lambda name: back.get(name, name))
        assert isinstance(renamed, Instruction)
        after = renamed
        if touched & set(back.values()):
            if ".shared" not in after.modifiers or ".const" not in pair.before.modifiers:
                raise _wrong(f"not the access {print_statement(pair.before).strip()}, which reads what was copied")
            after = replace(after, modifiers=tuple(".const" if m == ".shared" else m for m in after.modifiers))
    if after == pair.before and not pair.inserted:
        if touched & set(pads):
            _check_stays(pair.before, pads)
        return
    if not isinstance(after, Instruction) or not isinstance(pair.before, Instruction):
        raise _wrong(f"the statement {print_statement(pair.before).strip()}")
    _check_moved(pair, after, pads, touched, kinds, module, function)


def _check_stays(statement: Statement, pads: dict[str, Pad]) -> None:
    """An access of a padded variable that is as it was: to its first row, at a constant place."""
    assert isinstance(statement, Instruction)
    (operand,) = (o for o in statement.operands if isinstance(o, (Address, Indexed)))
    pad = next((p for name, p in pads.items() if _lies(operand, name)), None)
    if pad is None or not 0 <= _constant(operand) < pad.old:
        raise _wrong(f"not the access {print_statement(statement).strip()}, whose row was moved")


def _check_moved(
    pair: _Pair, after: Instruction, pads: dict[str, Pad], touched: frozenset[str], kinds: dict[str, str],
    module: Module, function: Function,
) -> None:  # fmt: skip
    """An access of a padded variable, whose address alone changed, and to the right place for every offset."""
    assert isinstance(pair.before, Instruction)
    what = print_statement(pair.before).strip()
    changed = [k for k, (a, b) in enumerate(zip(pair.before.operands, after.operands, strict=False)) if a != b]
    if replace(after, operands=pair.before.operands) != pair.before or len(changed) != 1:
        raise _wrong(f"the statement {what}")
    was, now = pair.before.operands[changed[0]], after.operands[changed[0]]
    addresses = isinstance(was, (Address, Indexed)) and isinstance(now, Address)
    if ".shared" not in pair.before.modifiers or not addresses:
        raise _wrong(f"the statement {what}")
    assert isinstance(was, (Address, Indexed))
    assert isinstance(now, Address)
    names = touched & set(pads)
    if len(names) != 1:
        raise _wrong(f"which variable {what} accesses")
    (name,) = names
    pad = pads[name]
    variable = _variable(module, function, pad.name)
    size = size_of(variable, variable.names[0])
    step = isa.bits(isa.types(pair.before)[-1]) // 8
    if _lies(was, pad.name):
        places = np.array([_constant(was)])
        offsets = np.array([_constant(now)])
    else:
        places, offsets = _moved_by(pair, was, now, pad, size, step, kinds, module)
    right = places + places // pad.old * (pad.new - pad.old)
    if not _lies(now, pad.name) and _lies(was, pad.name):
        raise _wrong(f"the address of {what}")
    if not np.array_equal(offsets, right):
        raise _wrong(f"the address of {what}")


def _moved_by(
    pair: _Pair, was: Address | Indexed, now: Address, pad: Pad, size: int, step: int, kinds: dict[str, str],
    module: Module,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """(offsets into the variable, offsets that the edited access has for them), by the executor."""
    assert isinstance(was, Address)
    assert isinstance(was.base, Name)
    assert isinstance(now.base, Name)
    source = was.base.text
    places = np.arange(0, size, step, dtype=np.int64)
    wide = kinds[source].endswith("64")
    registers = {n: kinds[n] for i in pair.inserted for n in (*isa.defs(i), *isa.uses(i)) if n in kinds} | {
        source: kinds[source]
    }
    declared = "".join(f"    .reg {kind} {name};\n" for name, kind in registers.items())
    back = 0 if was.offset is None else _number(was.offset)
    ahead = 0 if now.offset is None else _number(now.offset)
    widened = f"mov.b64 %hcc_x, {now.base.text};" if wide else f"cvt.u64.u32 %hcc_x, {now.base.text};"
    text = f"""{_head(module)}
.shared .align 16 .b8 {pad.name}[{size + size // pad.old * (pad.new - pad.old)}];
.visible .entry moved(.param .u64 out)
{{
    .reg .pred %hcc_p; .reg .b32 %hcc_t, %hcc_b, %hcc_n; .reg .b64 %hcc_o, %hcc_x, %hcc_w, %hcc_y;
{declared}
    mov.u32 %hcc_t, %ctaid.x;
    mov.u32 %hcc_b, %tid.x;
    mad.lo.u32 %hcc_t, %hcc_t, {THREADS}, %hcc_b;
    setp.ge.u32 %hcc_p, %hcc_t, {len(places)};
    @%hcc_p bra hcc_end;
    mul.lo.u32 %hcc_n, %hcc_t, {step};
    mov.u32 %hcc_b, {pad.name};
    add.u32 %hcc_n, %hcc_n, %hcc_b;
    sub.s32 %hcc_n, %hcc_n, {back};
    {f"cvt.s64.s32 {source}, %hcc_n;" if wide else f"mov.b32 {source}, %hcc_n;"}
{"".join(print_statement(i) + chr(10) for i in pair.inserted)}
    {widened}
    cvt.u64.u32 %hcc_y, %hcc_b;
    sub.u64 %hcc_x, %hcc_x, %hcc_y;
    add.s64 %hcc_x, %hcc_x, {ahead};
    ld.param.u64 %hcc_o, [out];
    mul.wide.u32 %hcc_w, %hcc_t, 8;
    add.u64 %hcc_w, %hcc_w, %hcc_o;
    st.global.u64 [%hcc_w], %hcc_x;
hcc_end:
    ret;
}}
"""
    out = np.zeros(len(places), np.int64)
    _run(text, -(-len(places) // THREADS), (THREADS, 1, 1), out)
    return places, out if wide else out & 0xFFFFFFFF


def _run(text: str, grid: int, block: tuple[int, int, int], out: np.ndarray, *, races: bool = True) -> None:
    from hybridcc.passes.execute.run import execute

    try:
        execute(parse(text, "edit"), None, grid, block, [out], detect_races=races)
    except ExecutionError as error:
        raise _wrong(f"what an edit does: {error}") from error


def _head(module: Module) -> str:
    heads = [str(Module((item,))).strip() for item in module.items if type(item).__name__ == "Directive"]
    return "\n".join(line for line in heads if line.startswith((".version", ".target", ".address_size")))


def _lies(operand: Address | Indexed, name: str) -> bool:
    if isinstance(operand, Indexed):
        return operand.name == name
    return isinstance(operand.base, Name) and operand.base.text == name


def _constant(operand: Address | Indexed) -> int:
    from hybridcc.ptx.constants import evaluate

    if isinstance(operand, Indexed):
        return evaluate(operand.index).value
    return 0 if operand.offset is None else _number(operand.offset)


def _number(immediate: Immediate) -> int:
    from hybridcc.ptx.constants import evaluate

    return evaluate(immediate.text).value


def _entry(module: Module, name: str) -> Function:
    return next(f for f in module.entries if f.name == name)


def _variable(module: Module, function: Function, name: str) -> Variable:
    assert function.body is not None
    places = (*module.items, *_flat(function.body.statements))
    return next(v for v in places if isinstance(v, Variable) and v.names[0].name == name)


def _wrong(what: str) -> SpliceRefused:
    return SpliceRefused(
        "EDIT_WRONG", f"an edit changed {what}", next_step="this is a defect of hybridcc; please report it"
    )
