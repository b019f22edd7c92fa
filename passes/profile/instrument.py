"""Instrumented clones of a kernel: one that counts its blocks, one that reads the clock round its regions.

A clone is for profiling alone. It computes what the kernel computes, takes the kernel's own parameters, and leaves its
findings in a buffer behind a module-scope symbol; the machine code that is raced is never a clone's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hybridcc.errors import ProfileError
from hybridcc.passes.analysis import cfg as cfg_module
from hybridcc.passes.analysis.cfg import ControlFlowGraph, is_branch
from hybridcc.passes.profile import counters
from hybridcc.passes.profile.equivalence import CountClass, count_classes
from hybridcc.passes.profile.profile import starts_of
from hybridcc.passes.regions.region import Port, Region
from hybridcc.passes.splice.names import NameScope, names_of_module
from hybridcc.passes.splice.place import insert, with_function
from hybridcc.passes.splice.reading import flatten
from hybridcc.ptx import isa, parse, parse_statements
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Function, Guard, Instruction, Label, Module, Name, Statement, Variable


@dataclass(frozen=True, slots=True)
class Clone:
    """``ptx`` holds the instrumented kernel under its own name, and ``symbol``: ``rows`` counters of SLOTS words.

    ``digest`` is the SHA-256 of the PTX it was made from.
    """

    ptx: str
    entry: str
    symbol: str
    rows: int
    digest: str

    @property
    def buffer_bytes(self) -> int:
        return max(1, self.rows) * counters.SLOTS * counters.WORD

    def totals(self, buffer: bytes) -> tuple[int, ...]:
        """The sum of each row of the symbol's content after a launch."""
        import numpy as np

        words = np.frombuffer(buffer, np.uint64).reshape(-1, counters.SLOTS)[: self.rows]
        return tuple(int(row.sum(dtype=np.uint64)) for row in words)


@dataclass(frozen=True, slots=True)
class CountingClone(Clone):
    """``classes`` are counted by row; those without a row are executed once by every thread."""

    classes: tuple[tuple[CountClass, int | None], ...] = ()
    firsts: tuple[int, ...] = ()
    """How many instructions stand before each block of ``cfg.build``."""
    every: int = 1
    """One thread block in so many is counted."""

    def counts(self, buffer: bytes, threads: int) -> tuple[int, ...]:
        """Thread executions of each block of ``cfg.build``, given how many threads were counted."""
        totals = self.totals(buffer)
        found = [0] * len(self.firsts)
        for members, row in self.classes:
            for block in members.blocks:
                found[block] = threads if row is None else totals[row]
        return tuple(found)

    def counted(self, grid_blocks: int) -> int:
        """How many blocks of a launch of so many count themselves."""
        return -(-grid_blocks // self.every)


@dataclass(frozen=True, slots=True)
class TimingClone(Clone):
    """Row 0 sums every thread's cycles in the kernel, row k+1 those in ``regions[k]``."""

    regions: tuple[str, ...] = ()

    def shares(self, buffer: bytes) -> tuple[float, ...]:
        """Each region's part of all threads' cycles, 0 to 1."""
        whole, *parts = self.totals(buffer)
        return tuple(part / whole if whole else 0.0 for part in parts)


def digest_of(ptx: str) -> str:
    return hashlib.sha256(ptx.encode()).hexdigest()


def counting_clone(ptx: str, entry: str, *, every: int = 1) -> CountingClone:
    """The clone that counts block executions.

    ``every``, a power of two, counts one thread block in so many: the others run the kernel as it was, from a second
    copy of its body, so that long kernels are not slowed down much. Raises ProfileError for kernels that cannot be
    counted this way (CALL_MAY_EXIT, NO_SAMPLING), PtxSyntaxError, ValueError.
    """
    if every < 1 or every & (every - 1):
        raise ValueError(f"{every} is no power of two")
    module = parse(ptx, "<kernel>")
    function = _entry(module, entry)
    cfg = cfg_module.build(function, module)
    _check_calls(module, cfg)
    names = NameScope(names_of_module(module))
    prefix, symbol = names.prefix("hcccount"), names.claim(names.prefix("hcccounts") + "buffer")
    edits = _Edits(function, cfg, prefix)
    classes: list[tuple[CountClass, int | None]] = []
    registers: dict[int, int] = {}
    rows = 0
    for members in count_classes(cfg):
        if members.every_thread:
            classes.append((members, None))
            continue
        if members.repeats:
            registers[len(registers)] = rows
            edits.at_block(members.counted_at, counters.count_again(prefix, len(registers) - 1))
        else:
            edits.at_block(members.counted_at, counters.count_once(prefix, rows))
        classes.append((members, rows))
        rows += 1
    edits.at_exits(counters.flush(prefix, registers))
    edits.at_start(counters.prologue(symbol, prefix, len(registers)))
    edited = edits.apply(module)
    if every > 1:
        edited = _sampled(edited, function, _entry(edited, entry), names.prefix("hccsample"), every)
    new = _with_buffer(edited, symbol, rows)
    return CountingClone(str(new), entry, symbol, rows, digest_of(ptx), tuple(classes), starts_of(cfg), every)


def _sampled(module: Module, original: Function, counting: Function, prefix: str, every: int) -> Module:
    """Both bodies in scopes of their own behind one branch by the thread block's number."""
    assert original.body is not None
    assert counting.body is not None
    if any(isinstance(s, Variable) and s.space in (".shared", ".local") for s in flatten(original.body.statements)):
        raise ProfileError(
            "NO_SAMPLING",
            "the kernel declares shared or local memory in its body, which two copies would need twice",
            next_step="count every block (--sample 1)",
        )
    choose = f"""\
.reg .pred %{prefix}p;
.reg .b32 %{prefix}n<9>;
mov.u32 %{prefix}n0, %ctaid.z;
mov.u32 %{prefix}n1, %nctaid.y;
mov.u32 %{prefix}n2, %ctaid.y;
mad.lo.s32 %{prefix}n3, %{prefix}n0, %{prefix}n1, %{prefix}n2;
mov.u32 %{prefix}n4, %nctaid.x;
mov.u32 %{prefix}n5, %ctaid.x;
mad.lo.s32 %{prefix}n6, %{prefix}n3, %{prefix}n4, %{prefix}n5;
and.b32 %{prefix}n7, %{prefix}n6, {every - 1};
setp.ne.u32 %{prefix}p, %{prefix}n7, 0;
@%{prefix}p bra ${prefix}plain;
"""
    statements = (
        *parse_statements(choose, "<instrument>"),
        counting.body,
        *parse_statements(f"ret;\n${prefix}plain:\n", "<instrument>"),
        original.body,
    )
    return with_function(module, counting, replace(counting, body=replace(counting.body, statements=statements)))


def timing_clone(ptx: str, entry: str, regions: Sequence[Region]) -> TimingClone:
    """The clone that reads the clock when it enters and leaves each region, and at the kernel's start and ends.

    ``regions`` are those of ``regions.find`` on the same PTX; nested ones may be given together. A region's time holds
    what its threads wait for each other there. Raises ProfileError (CALL_MAY_EXIT, NO_REGION), PtxSyntaxError.
    """
    module = parse(ptx, "<kernel>")
    function = _entry(module, entry)
    timed = [r for r in regions if r.exit >= 0]
    if not timed:
        what = "no region of the kernel has one place where it is left"
        raise ProfileError("NO_REGION", what, next_step="count its blocks instead: leave the clock out")
    cfg = timed[0].cfg
    _check_calls(module, cfg)
    names = NameScope(names_of_module(module))
    prefix, symbol = names.prefix("hcctime"), names.claim(names.prefix("hcctimes") + "buffer")
    edits = _Edits(function, cfg, prefix)
    running = ""
    for number, region in enumerate(timed, start=1):
        inside = f"%{prefix}in{number}"
        running += f".reg .pred {inside};\nsetp.ne.u32 {inside}, 0, 0;\n"
        edits.at_block(region.entry, _guarded_start(prefix, number, inside))
        edits.at_block(region.exit, _guarded_stop(prefix, number, inside, region.live_out))
    rows = len(timed) + 1
    edits.at_exits(counters.add_time(prefix, 0) + counters.flush(prefix, {k: k for k in range(rows)}))
    edits.at_start(counters.first_time(prefix) + counters.prologue(symbol, prefix, rows, begun=True) + running)
    new = _with_buffer(edits.apply(module), symbol, rows)
    return TimingClone(str(new), entry, symbol, rows, digest_of(ptx), tuple(r.id for r in timed))


def _guarded_start(prefix: str, number: int, inside: str) -> str:
    """A region's entry may be a loop's head: only the way in from outside starts its stopwatch."""
    return f"""\
{{
.reg .b64 %{prefix}t<2>;
mov.u64 %{prefix}t0, %clock64;
sub.s64 %{prefix}t1, %{prefix}c{number}, %{prefix}t0;
selp.b64 %{prefix}c{number}, %{prefix}c{number}, %{prefix}t1, {inside};
setp.eq.u32 {inside}, 0, 0;
}}
"""


def _guarded_stop(prefix: str, number: int, inside: str, waits: Sequence[Port]) -> str:
    """A region's exit may be reached from elsewhere as well.

    The clock is read under a predicate that hangs on every value that the region leaves, so that what it still waits
    for (the last loads, above all) is charged to it and not to whoever reads the value next.
    """
    return f"""\
{{
.reg .b64 %{prefix}t<2>;
.reg .pred %{prefix}w<2>;
{_hanging_on(prefix, waits)}mov.u64 %{prefix}t0, 0;
@%{prefix}w0 mov.u64 %{prefix}t0, %clock64;
@!%{prefix}w0 mov.u64 %{prefix}t0, %clock64;
add.s64 %{prefix}t1, %{prefix}c{number}, %{prefix}t0;
selp.b64 %{prefix}c{number}, %{prefix}t1, %{prefix}c{number}, {inside};
setp.ne.u32 {inside}, 0, 0;
}}
"""


def _hanging_on(prefix: str, waits: Sequence[Port]) -> str:
    """A predicate, never known beforehand, that cannot be formed before the values are there."""
    lines = [f"setp.ne.u32 %{prefix}w0, 0, 0;\n"]
    for port in waits:
        width = isa.bits(port.type)
        if width not in (32, 64):
            continue
        kind, unlikely = (f".f{width}", "num") if port.type.startswith(".f") else (f".u{width}", "ne")
        other = port.spelling if unlikely == "num" else str(0x5EED5EED)
        lines.append(f"setp.{unlikely}{kind} %{prefix}w1, {port.spelling}, {other};\n")
        lines.append(f"xor.pred %{prefix}w0, %{prefix}w0, %{prefix}w1;\n")
    return "".join(lines)


class _Edits:
    """Insertions into one function, gathered by flattened statement and applied at once."""

    def __init__(self, function: Function, cfg: ControlFlowGraph, prefix: str) -> None:
        self.function, self.cfg, self.prefix = function, cfg, prefix
        self.before: dict[int, list[Statement]] = {}
        self.changed: dict[int, Statement] = {}
        self.last: tuple[Statement, ...] = ()

    def at_block(self, block: int, text: str) -> None:
        """After the block's labels, before its first instruction."""
        b = self.cfg.blocks[block]
        places = range(b.first, b.last)
        labels = [i for i in places if isinstance(self.cfg.statements[i], Label)]
        start = labels[-1] + 1 if labels else b.first
        at = next((i for i in range(start, b.last) if isinstance(self.cfg.statements[i], Instruction)), None)
        statements = parse_statements(text, "<instrument>")
        if at is None and b.last == len(self.cfg.statements):
            self.last = (*self.last, *statements)
        else:
            self.before.setdefault(b.last if at is None else at, []).extend(statements)

    def at_start(self, text: str) -> None:
        self.before.setdefault(0, [])[:0] = parse_statements(text, "<instrument>")

    def at_exits(self, text: str) -> None:
        """Before every ret, exit and the closing brace. A guarded exit becomes a branch round an unguarded one."""
        statements = parse_statements(text, "<instrument>") if text else ()
        for index, statement in enumerate(self.cfg.statements):
            if not isinstance(statement, Instruction) or Effect.EXIT not in isa.effects(statement):
                continue
            original = statement
            if statement.guard is None:
                self.before.setdefault(index, []).extend(statements)
                continue
            stay = f"${self.prefix}stay{index}"
            guard = self._spelled(statement.guard)
            skip = Instruction("bra", (), (Name(stay),), replace(guard, negated=not guard.negated))
            leave = replace(original, guard=None)
            self.before.setdefault(index, []).extend((skip, *statements, leave))
            self.changed[index] = Label(stay)
        if any(b.leaves and self._falls_off(b.index) for b in self.cfg.blocks):
            self.last = (*self.last, *statements)

    def _spelled(self, guard: Guard) -> Guard:
        """The guard as the kernel spells it, in place of the resolver's unique name."""
        return replace(guard, name=self.cfg.scoped.spelling(guard.name))

    def _falls_off(self, block: int) -> bool:
        """Whether control runs over the closing brace at the end of this block."""
        b = self.cfg.blocks[block]
        if b.last != len(self.cfg.statements):
            return False
        instructions = self.cfg.instructions(block)
        return not instructions or not is_branch(instructions[-1]) or instructions[-1].guard is not None

    def apply(self, module: Module) -> Module:
        new = insert(self.function, self.before, frozenset(), self.changed)
        if self.last:
            assert new.body is not None
            new = replace(new, body=replace(new.body, statements=(*new.body.statements, *self.last)))
        return with_function(module, self.function, new)


def _entry(module: Module, name: str) -> Function:
    from hybridcc.passes.regions.find import entry_of

    return entry_of(module, name)


def _check_calls(module: Module, cfg: ControlFlowGraph) -> None:
    """Threads that leave inside a called function would take their counters along."""
    called = any(Effect.CALL in isa.effects(s) for s in cfg.statements if isinstance(s, Instruction))
    if not called:
        return
    for function in module.functions:
        if function.kind == ".func" and function.body is not None and _exits(function, module):
            raise ProfileError(
                "CALL_MAY_EXIT",
                f"{function.name} may end the thread inside a call",
                next_step="profile with the executor instead (--source executed)",
            )


def _exits(function: Function, module: Module) -> bool:
    scoped = cfg_module.build(function, module)
    return any(isinstance(s, Instruction) and s.opcode == "exit" for s in scoped.statements)


def _with_buffer(module: Module, symbol: str, rows: int) -> Module:
    """The module with the buffer declared before its first function."""
    (variable,) = parse(_HEADER + counters.declaration(symbol, rows), "<instrument>").items[-1:]
    at = next(n for n, item in enumerate(module.items) if isinstance(item, Function))
    return replace(module, items=(*module.items[:at], variable, *module.items[at:]))


_HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
