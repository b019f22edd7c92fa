"""The instruction table: what each PTX opcode reads, writes and does besides, and since when it exists.

One declarative table (PTX ISA 9.0, chapter 9); liveness, the splicer, the allow-list for model output, the
executor, the prover and the tokenizer read it and keep no list of their own. What an operation computes is not
here but in semantics.py.

The operand pattern is one word per operand: ``def``, ``use``, ``addr`` (registers in brackets are read; any
bracketed operand is one, whatever the pattern says), ``mod`` (read and written), ``label``, ``symbol``, ``def?``
(a destination that may be left out). The last word repeats for further operands.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from types import MappingProxyType

from hybridcc.ptx.nodes import (
    Address,
    ArgumentList,
    BracketList,
    Instruction,
    Member,
    Name,
    Not,
    Operand,
    Pair,
    Vector,
)


class Effect(Enum):
    """What an instruction does besides computing its destinations from its sources."""

    READ = auto()
    """Reads memory."""
    WRITE = auto()
    """Writes memory."""
    ATOMIC = auto()
    """A read-modify-write that other threads see as one step, or an access with acquire/release order."""
    VOLATILE = auto()
    """Must happen exactly as often as written, in its place (volatile, relaxed and mmio accesses, sleeps)."""
    BARRIER = auto()
    """Waits for other threads."""
    FENCE = auto()
    """Orders memory accesses."""
    CONVERGENT = auto()
    """Its result or its legality depends on which threads execute it together."""
    CONTROL = auto()
    """Control may go elsewhere than to the next statement, within the function."""
    EXIT = auto()
    """Ends the function or the thread."""
    CALL = auto()
    ASYNC = auto()
    """Starts or waits for work that completes later."""
    CLOCK = auto()
    """Reads something that changes by itself (clocks, performance counters)."""
    STATE = auto()
    """Changes state that is neither memory nor a register (register budget, cache policy, stack)."""
    CARRY_IN = auto()
    CARRY_OUT = auto()


@dataclass(frozen=True, slots=True)
class Opcode:
    """One row. ``forms`` are operand patterns by the modifier that selects them ("" is the plain form).

    ``ptx`` is the least PTX version (major, minor) and ``sm`` the least architecture of the plain opcode; single
    modifiers may need more (FEATURES).
    """

    name: str
    forms: tuple[tuple[str, tuple[str, ...]], ...]
    effects: frozenset[Effect] = frozenset()
    ptx: tuple[int, int] = (1, 0)
    sm: int = 10
    section: str = ""
    arch_specific: bool = False
    """Exists only on an architecture-specific target such as sm_90a."""

    def pattern(self, modifiers: tuple[str, ...]) -> tuple[str, ...]:
        for selector, pattern in self.forms:
            if not selector or selector in modifiers:
                return pattern
        return self.forms[-1][1]


R, W, A, V, B, F = Effect.READ, Effect.WRITE, Effect.ATOMIC, Effect.VOLATILE, Effect.BARRIER, Effect.FENCE
C, J, X, L, Y, K, S = (
    Effect.CONVERGENT, Effect.CONTROL, Effect.EXIT, Effect.CALL, Effect.ASYNC, Effect.CLOCK, Effect.STATE,
)  # fmt: skip

# name | forms | effects | PTX | sm | section of the PTX ISA
_ROWS: tuple[tuple[str, str, tuple[Effect, ...], str, int, str], ...] = (
    # integer arithmetic
    ("add", "def use", (), "1.0", 10, "9.7.1.1"),
    ("sub", "def use", (), "1.0", 10, "9.7.1.2"),
    ("mul", "def use", (), "1.0", 10, "9.7.1.3"),
    ("mad", "def use", (), "1.0", 10, "9.7.1.4"),
    ("mul24", "def use", (), "1.0", 10, "9.7.1.5"),
    ("mad24", "def use", (), "1.0", 10, "9.7.1.6"),
    ("sad", "def use", (), "1.0", 10, "9.7.1.7"),
    ("div", "def use", (), "1.0", 10, "9.7.1.8"),
    ("rem", "def use", (), "1.0", 10, "9.7.1.9"),
    ("abs", "def use", (), "1.0", 10, "9.7.1.10"),
    ("neg", "def use", (), "1.0", 10, "9.7.1.11"),
    ("min", "def use", (), "1.0", 10, "9.7.1.12"),
    ("max", "def use", (), "1.0", 10, "9.7.1.13"),
    ("popc", "def use", (), "2.0", 20, "9.7.1.14"),
    ("clz", "def use", (), "2.0", 20, "9.7.1.15"),
    ("bfind", "def use", (), "2.0", 20, "9.7.1.16"),
    ("fns", "def use", (), "6.0", 30, "9.7.1.17"),
    ("brev", "def use", (), "2.0", 20, "9.7.1.18"),
    ("bfe", "def use", (), "2.0", 20, "9.7.1.19"),
    ("bfi", "def use", (), "2.0", 20, "9.7.1.20"),
    ("szext", "def use", (), "7.6", 70, "9.7.1.21"),
    ("bmsk", "def use", (), "7.6", 70, "9.7.1.22"),
    ("dp4a", "def use", (), "5.0", 61, "9.7.1.23"),
    ("dp2a", "def use", (), "5.0", 61, "9.7.1.24"),
    ("addc", "def use", (Effect.CARRY_IN,), "1.2", 10, "9.7.2.2"),
    ("subc", "def use", (Effect.CARRY_IN,), "1.2", 10, "9.7.2.4"),
    ("madc", "def use", (Effect.CARRY_IN,), "3.0", 20, "9.7.2.6"),
    # floating point
    ("testp", "def use", (), "2.0", 20, "9.7.3.1"),
    ("copysign", "def use", (), "2.0", 20, "9.7.3.2"),
    ("fma", "def use", (), "1.4", 13, "9.7.3.6"),
    ("rcp", "def use", (), "1.0", 10, "9.7.3.13"),
    ("sqrt", "def use", (), "1.0", 10, "9.7.3.15"),
    ("rsqrt", "def use", (), "1.0", 10, "9.7.3.16"),
    ("sin", "def use", (), "1.0", 10, "9.7.3.18"),
    ("cos", "def use", (), "1.0", 10, "9.7.3.19"),
    ("lg2", "def use", (), "1.0", 10, "9.7.3.20"),
    ("ex2", "def use", (), "1.0", 10, "9.7.3.21"),
    ("tanh", "def use", (), "7.0", 75, "9.7.3.22"),
    # comparison and selection
    ("set", "def use", (), "1.0", 10, "9.7.6.1"),
    ("setp", "def use", (), "1.0", 10, "9.7.6.2"),
    ("selp", "def use", (), "1.0", 10, "9.7.6.3"),
    ("slct", "def use", (), "1.0", 10, "9.7.6.4"),
    # logic and shift
    ("and", "def use", (), "1.0", 10, "9.7.8.1"),
    ("or", "def use", (), "1.0", 10, "9.7.8.2"),
    ("xor", "def use", (), "1.0", 10, "9.7.8.3"),
    ("not", "def use", (), "1.0", 10, "9.7.8.4"),
    ("cnot", "def use", (), "1.0", 10, "9.7.8.5"),
    ("lop3", "def use", (), "4.3", 50, "9.7.8.6"),
    ("shf", "def use", (), "3.1", 32, "9.7.8.7"),
    ("shl", "def use", (), "1.0", 10, "9.7.8.8"),
    ("shr", "def use", (), "1.0", 10, "9.7.8.9"),
    # data movement
    ("mov", "def use", (), "1.0", 10, "9.7.9.3"),
    ("shfl", "def use", (C,), "3.0", 30, "9.7.9.6"),
    ("prmt", "def use", (), "2.0", 20, "9.7.9.7"),
    ("ld", "def addr use", (R,), "1.0", 10, "9.7.9.8"),
    ("ldu", "def addr", (R,), "2.0", 20, "9.7.9.10"),
    ("st", "addr use", (W,), "1.0", 10, "9.7.9.11"),
    ("multimem", ".st: addr use; .red: addr use; def addr use", (R, W, A), "8.1", 90, "9.7.9.14"),
    ("prefetch", "addr", (), "2.0", 20, "9.7.9.15"),
    ("prefetchu", "addr", (), "2.0", 20, "9.7.9.15"),
    ("applypriority", "addr use", (S,), "7.4", 80, "9.7.9.16"),
    ("discard", "addr use", (W,), "7.4", 80, "9.7.9.17"),
    ("createpolicy", "def use", (), "7.4", 80, "9.7.9.18"),
    ("isspacep", "def use", (), "2.0", 20, "9.7.9.19"),
    ("istypep", "def use", (), "4.0", 30, "9.7.9.19"),
    ("cvta", "def use", (), "2.0", 20, "9.7.9.20"),
    ("cvt", "def use", (), "1.0", 10, "9.7.9.21"),
    ("mapa", "def use", (), "7.8", 90, "9.7.9.24"),
    ("getctarank", "def use", (), "7.8", 90, "9.7.9.25"),
    ("cp", ".wait_group: use; .wait_all: use; .commit_group: use; .mbarrier: addr; addr addr use", (R, W, Y),
     "7.0", 80, "9.7.9.25"),
    ("tensormap", ".cp_fenceproxy: addr addr use; addr use", (R, W), "8.3", 90, "9.7.9.28"),
    # textures and surfaces
    ("tex", "def addr use", (R,), "1.0", 10, "9.7.10.3"),
    ("tld4", "def addr use", (R,), "2.2", 20, "9.7.10.4"),
    ("txq", "def addr use", (R,), "1.5", 10, "9.7.10.5"),
    ("suld", "def addr", (R,), "1.5", 20, "9.7.11.1"),
    ("sust", "addr use", (W,), "1.5", 20, "9.7.11.2"),
    ("sured", "addr use", (R, W, A), "2.0", 20, "9.7.11.3"),
    ("suq", "def addr", (R,), "1.5", 20, "9.7.11.4"),
    # control flow
    ("bra", "label", (J,), "1.0", 10, "9.7.12.3"),
    ("brx", "use label", (J,), "6.0", 30, "9.7.12.4"),
    ("call", "call", (L, R, W, C), "1.0", 10, "9.7.12.5"),
    ("ret", "use", (X,), "1.0", 10, "9.7.12.6"),
    ("exit", "use", (X,), "1.0", 10, "9.7.12.7"),
    ("trap", "use", (X,), "1.0", 10, "9.7.19.5"),
    # parallel synchronisation and communication
    ("bar", ".red: def use; use", (B, C, F), "1.0", 10, "9.7.13.1"),
    ("barrier", ".red: def use; use", (B, C, F), "6.0", 30, "9.7.13.1"),
    ("membar", "use", (F,), "1.4", 10, "9.7.13.5"),
    ("fence", "addr use", (F,), "6.0", 70, "9.7.13.5"),
    ("atom", "def addr use", (R, W, A), "1.1", 11, "9.7.13.6"),
    ("red", "addr use", (R, W, A), "1.2", 11, "9.7.13.7"),
    ("vote", "def use", (C,), "1.2", 12, "9.7.13.9"),
    ("match", "def use", (C,), "6.0", 70, "9.7.13.10"),
    ("activemask", "def", (C,), "6.2", 30, "9.7.13.11"),
    ("redux", "def use", (C,), "7.0", 80, "9.7.13.12"),
    ("griddepcontrol", "use", (B, F), "7.8", 90, "9.7.13.13"),
    ("elect", "def use", (C,), "8.0", 90, "9.7.13.14"),
    ("mbarrier", ".init: addr use; .inval: addr; .expect_tx: addr use; .complete_tx: addr use; "
     ".pending_count: def use; .test_wait: def addr use; .try_wait: def addr use; def? addr use",
     (R, W, A, B, F), "7.0", 80, "9.7.13.15"),
    ("clusterlaunchcontrol", ".try_cancel: addr addr; def use", (R, W, Y), "8.6", 100, "9.7.13.16"),
    # matrix instructions
    ("wmma", ".load: def addr use; .store: addr use; def use", (C,), "6.0", 70, "9.7.14.4"),
    ("mma", "def use", (C,), "6.4", 70, "9.7.14.5"),
    ("ldmatrix", "def addr", (R, C), "6.5", 75, "9.7.14.5"),
    ("stmatrix", "addr use", (W, C), "7.8", 90, "9.7.14.5"),
    ("movmatrix", "def use", (C,), "7.8", 75, "9.7.14.5"),
    ("wgmma", ".mma_async: mod use; use", (R, C, Y), "8.0", 90, "9.7.15"),
    ("tcgen05", ".ld: def addr use; .alloc: addr use; addr use", (R, W, C, Y), "8.6", 100, "9.7.16"),
    # stack
    ("stacksave", "def", (), "7.3", 52, "9.7.17.1"),
    ("stackrestore", "use", (S,), "7.3", 52, "9.7.17.2"),
    ("alloca", "def use", (S,), "7.3", 52, "9.7.17.3"),
    # video
    ("vadd", "def use", (), "2.0", 20, "9.7.18.1"),
    ("vsub", "def use", (), "2.0", 20, "9.7.18.1"),
    ("vabsdiff", "def use", (), "2.0", 20, "9.7.18.1"),
    ("vmin", "def use", (), "2.0", 20, "9.7.18.1"),
    ("vmax", "def use", (), "2.0", 20, "9.7.18.1"),
    ("vshl", "def use", (), "2.0", 20, "9.7.18.2"),
    ("vshr", "def use", (), "2.0", 20, "9.7.18.2"),
    ("vmad", "def use", (), "2.0", 20, "9.7.18.3"),
    ("vset", "def use", (), "2.0", 20, "9.7.18.4"),
    ("vadd2", "def use", (), "3.0", 30, "9.7.18.5"),
    ("vsub2", "def use", (), "3.0", 30, "9.7.18.5"),
    ("vavrg2", "def use", (), "3.0", 30, "9.7.18.5"),
    ("vabsdiff2", "def use", (), "3.0", 30, "9.7.18.5"),
    ("vmin2", "def use", (), "3.0", 30, "9.7.18.5"),
    ("vmax2", "def use", (), "3.0", 30, "9.7.18.5"),
    ("vset2", "def use", (), "3.0", 30, "9.7.18.6"),
    ("vadd4", "def use", (), "3.0", 30, "9.7.18.7"),
    ("vsub4", "def use", (), "3.0", 30, "9.7.18.7"),
    ("vavrg4", "def use", (), "3.0", 30, "9.7.18.7"),
    ("vabsdiff4", "def use", (), "3.0", 30, "9.7.18.7"),
    ("vmin4", "def use", (), "3.0", 30, "9.7.18.7"),
    ("vmax4", "def use", (), "3.0", 30, "9.7.18.7"),
    ("vset4", "def use", (), "3.0", 30, "9.7.18.8"),
    # miscellaneous
    ("brkpt", "use", (V,), "1.0", 11, "9.7.19.1"),
    ("nanosleep", "use", (V,), "6.3", 70, "9.7.19.2"),
    ("pmevent", "use", (V,), "1.4", 10, "9.7.19.3"),
    ("setmaxnreg", "use", (S, C), "8.0", 90, "9.7.19.4"),
)  # fmt: skip

_ARCH_SPECIFIC = frozenset({"wgmma", "setmaxnreg", "tensormap", "tcgen05"})


def _row(name: str, forms: str, effects: tuple[Effect, ...], ptx: str, sm: int, section: str) -> Opcode:
    parsed = []
    for form in forms.split(";"):
        selector, found, pattern = form.strip().rpartition(":")
        parsed.append((selector if found else "", tuple(pattern.split())))
    major, minor = ptx.split(".")
    return Opcode(
        name, tuple(parsed), frozenset(effects), (int(major), int(minor)), sm, section, name in _ARCH_SPECIFIC
    )


OPCODES: MappingProxyType[str, Opcode] = MappingProxyType({row[0]: _row(*row) for row in _ROWS})
"""Every opcode known, by its first word ("cp" for cp.async)."""

SPACES = frozenset({".const", ".global", ".local", ".param", ".shared"})
_ORDERED = frozenset({".acquire", ".release", ".acq_rel", ".sc"})
_AT_ONCE = frozenset({".volatile", ".relaxed", ".mmio"})
_CLOCKS = frozenset({"%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"})

SPECIAL_REGISTERS = frozenset(
    {
        "%tid", "%ntid", "%laneid", "%warpid", "%nwarpid", "%ctaid", "%nctaid", "%smid", "%nsmid", "%gridid",
        "%is_explicit_cluster", "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid",
        "%cluster_ctarank", "%cluster_nctarank", "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge",
        "%lanemask_gt", "%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi",
        "%total_smem_size", "%aggr_smem_size", "%dynamic_smem_size", "%current_graph_exec",
    }
)  # fmt: skip
"""Those without a number in their name (PTX ISA chapter 10); is_special_register also knows the numbered ones."""

_NUMBERED_SPECIALS = ("%pm", "%envreg")
_RESERVED_SHARED = "%reserved_smem_offset_"


# --- questions ------------------------------------------------------------------------------------------


def lookup(instruction: Instruction) -> Opcode | None:
    """The row of an instruction's opcode, or None where the table has none."""
    return OPCODES.get(instruction.opcode)


def is_special_register(operand: Operand | str) -> bool:
    """Whether a name or an operand (``%tid.x``) is a predefined special register."""
    match operand:
        case Name(text=name) | Member(name=name):
            pass
        case str():
            name = operand.partition(".")[0]
        case _:
            return False
    if name in SPECIAL_REGISTERS or name.startswith(_RESERVED_SHARED):
        return True
    return any(name.startswith(p) and name[len(p) :].partition("_")[0].isdigit() for p in _NUMBERED_SPECIALS)


def is_predefined(name: str) -> bool:
    """Whether PTX itself defines the name: a special register, ``WARP_SZ``, or the sink ``_``."""
    return name in ("_", "WARP_SZ", "%pt") or is_special_register(name)


def defs(instruction: Instruction) -> tuple[str, ...]:
    """The registers an instruction writes, as spelled, without the sink; a guard makes the write conditional."""
    return _accesses(instruction)[0]


def uses(instruction: Instruction) -> tuple[str, ...]:
    """The registers (and other names) an instruction reads: guard, sources, and whatever stands in brackets.

    Labels, callees and special registers are not among them; variables are (``mov.u64 %rd, shared_array``).
    """
    return _accesses(instruction)[1]


def is_conditional_def(instruction: Instruction) -> bool:
    """Whether the destinations may keep their old value."""
    return instruction.guard is not None


def branch_targets(instruction: Instruction) -> tuple[str, ...]:
    """The label of a ``bra``, or the name of the table of a ``brx.idx``."""
    row = lookup(instruction)
    if row is None or Effect.CONTROL not in row.effects or not instruction.operands:
        return ()
    last = instruction.operands[-1]
    return (last.text,) if isinstance(last, Name) else ()


def memory_space(instruction: Instruction) -> str | None:
    """The state space an access names (".global"; ".shared" for its ::cta and ::cluster forms), None for generic."""
    for modifier in instruction.modifiers:
        space = modifier.partition("::")[0]
        if space in SPACES:
            return space
    return None


def effects(instruction: Instruction) -> frozenset[Effect]:
    """What the instruction does besides computing; the empty set where the table has no row."""
    return _effects(instruction.opcode, instruction.modifiers) | _clock(instruction)


@lru_cache(maxsize=4096)
def _effects(opcode: str, modifiers: tuple[str, ...]) -> frozenset[Effect]:
    row = OPCODES.get(opcode)
    if row is None:
        return frozenset()
    found = set(row.effects)
    words = set(modifiers)
    if opcode == "wmma":
        found |= {R} if ".load" in words else {W} if ".store" in words else set()
    if opcode == "cp":
        found = _copy_effects(words)
    if found & {R, W} and words & _ORDERED:
        found |= {A, F}
    if found & {R, W} and words & _AT_ONCE:
        found.add(V)
    if opcode in ("bar", "barrier") and ".warp" in words:
        found |= {B, C, F}
    if ".cc" in words:
        found.add(Effect.CARRY_OUT)
    return frozenset(found)


def _copy_effects(words: set[str]) -> set[Effect]:
    if words & {".commit_group"}:
        return {Y}
    if words & {".wait_group", ".wait_all"}:
        return {Y, F}
    if ".mbarrier" in words:
        return {Y, W, A}
    return {R, W, Y}


def _clock(instruction: Instruction) -> frozenset[Effect]:
    if instruction.opcode != "mov":
        return frozenset()
    names = {o.text if isinstance(o, Name) else o.name for o in instruction.operands if isinstance(o, (Name, Member))}
    counts = any(n in _CLOCKS or n.startswith("%pm") for n in names)
    return frozenset({K}) if counts else frozenset()


def _accesses(instruction: Instruction) -> tuple[tuple[str, ...], tuple[str, ...]]:
    defined: list[str] = []
    used: list[str] = []
    if instruction.guard is not None:
        used.append(instruction.guard.name)
    row = lookup(instruction)
    pattern = row.pattern(instruction.modifiers) if row else ("use",)
    if pattern == ("call",):
        _call(instruction, defined, used)
    else:
        at = 0
        for operand in instruction.operands:
            role = pattern[min(at, len(pattern) - 1)]
            if role == "def?" and isinstance(operand, (Address, BracketList)):
                at += 1
                role = "addr"
            at += 1
            _collect(operand, role, defined, used)
    return tuple(dict.fromkeys(defined)), tuple(dict.fromkeys(used))


def _call(instruction: Instruction, defined: list[str], used: list[str]) -> None:
    """``call (ret), callee, (arguments), prototype``: .param names carry no register; a register callee is read."""
    operands = instruction.operands
    at = 0
    if operands and isinstance(operands[0], ArgumentList):
        _names(operands[0], defined)
        at = 1
    if at < len(operands):
        _names(operands[at], used)
    for operand in operands[at + 1 :]:
        if isinstance(operand, ArgumentList):
            _names(operand, used)


def _collect(operand: Operand, role: str, defined: list[str], used: list[str]) -> None:
    if role in ("label", "symbol"):
        return
    if isinstance(operand, (Address, BracketList)):
        _names(operand, used)
        return
    if role in ("def", "def?", "mod"):
        _names(operand, defined)
    if role not in ("def", "def?"):
        _names(operand, used)


def _names(operand: Operand, into: list[str]) -> None:
    match operand:
        case Name(text=text):
            if not is_predefined(text):
                into.append(text)
        case Member(name=name):
            if not is_predefined(name):
                into.append(name)
        case Address(base=Name() as base):
            _names(base, into)
        case Not(operand=inner):
            _names(inner, into)
        case Vector(items=items) | BracketList(items=items) | ArgumentList(items=items):
            for item in items:
                _names(item, into)
        case Pair(first=first, second=second):
            _names(first, into)
            _names(second, into)
        case _:
            pass
