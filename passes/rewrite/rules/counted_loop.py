"""The text of a counted loop: so many trips one after another, what is left of them in a loop of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hybridcc.passes.facts import RegionInput, Relation
from hybridcc.passes.regions import Region
from hybridcc.passes.rewrite.rules import vector
from hybridcc.passes.rewrite.rules.forward import Step
from hybridcc.passes.rewrite.rules.materialize import Materializer
from hybridcc.passes.rewrite.rules.pointers import Pointer, pointers_of
from hybridcc.passes.rewrite.rules.trip import Trip
from hybridcc.ptx import isa, parse_statements
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Address, Immediate, Instruction, Label, Name, Statement
from hybridcc.ptx.rename import rename_statement

NUMBER = "%trip"
"""The number of the trip, where a pointer needs it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """``unroll`` trips a turn; with ``batched`` all loads of a turn come ahead of what is made of them; with
    ``vector`` those side by side are one; ``narrow`` counts in 32 bits; ``read_only`` loads as the facts allow of
    arrays that nobody writes."""

    unroll: int = 1
    batched: bool = True
    vector: bool = False
    narrow: bool = False
    read_only: bool = False

    def __str__(self) -> str:
        words = [f"{self.unroll}x", *(["batched"] if self.batched and self.unroll > 1 else [])]
        words += [word for word in ("vector", "narrow", "read_only") if getattr(self, word)]
        return " ".join(words).replace("_", "-")


@dataclass(slots=True)
class Body:
    """Makes the trips of one plan; ``rest`` is a last one that differs. ``types`` collects the registers they need."""

    trip: Trip
    rest: Trip | None
    materializer: Materializer
    types: dict[str, str] = field(default_factory=dict)
    pointers: Mapping[Step, tuple[Pointer, int]] = field(init=False)
    steps: dict[str, str] = field(init=False)
    """What each counting register goes on by, as an operand."""
    read_only: bool = False
    guards: dict[str, None] = field(default_factory=dict)
    """Conditions that the text needs."""

    def __post_init__(self) -> None:
        self.pointers = pointers_of([self.trip, *([] if self.rest is None else [self.rest])], self.materializer)
        self.steps = {}
        for register, step in self.trip.counted.steps.items():
            operand = self.materializer.operand(step)
            self.steps[register] = operand.text if isinstance(operand, (Immediate, Name)) else ""
        if self._indexed():
            self.materializer.made += parse_statements(f"mov.b64 {NUMBER}, 0;")  # type: ignore[arg-type]
            self.types[NUMBER] = ".b64"
            self.steps[NUMBER] = "1"

    def _indexed(self) -> dict[str, list[Pointer]]:
        """The pointers that stay where they are, by step."""
        found: dict[str, list[Pointer]] = {}
        for pointer in dict.fromkeys(p for p, _ in self.pointers.values()):
            if pointer.indexed and isinstance(pointer.step, str):
                found.setdefault(pointer.step, []).append(pointer)
        return found

    def turn(self, unroll: int, plan: Plan) -> list[Statement]:
        """``unroll`` trips, and the pointers and counters moved on."""
        made: list[Statement] = []
        for number in range(unroll):
            copied = self._copy(self.trip, number, f"_{number}" if unroll > 1 else "")
            made += _ahead(copied) if plan.batched else copied
        made += self._moved_on(unroll)
        if not plan.batched or not self.trip.reads_only:
            return made
        made = _loads_first(made)
        if plan.vector and unroll > 1:
            pointers = dict.fromkeys(p for p, _ in self.pointers.values())
            made, guards = vector.side_by_side(made, pointers, self.trip.counted.subject.region)
            self.guards |= guards
        return made

    def last(self) -> list[Statement]:
        """The trip that differs."""
        assert self.rest is not None
        return self._copy(self.rest, 0, "_r")

    def _at(self, register: str, number: int) -> str:
        """The name of a pointer or counter in a trip of the turn."""
        return register if number == 0 else f"{register}_{number}"

    def _movers(self) -> dict[str, tuple[str, str]]:
        """Registers that are moved on by a register's worth or one by one, with operand and type."""
        types = {**self.trip.counted.subject.types, **self.types}
        made = {r: (by, f".s{types[r][2:]}") for r, by in self.steps.items()}
        for pointer, _ in self.pointers.values():
            if isinstance(pointer.step, str) and not pointer.indexed:
                made[pointer.register] = (pointer.step, ".s64")
        return made

    def _copy(self, trip: Trip, number: int, suffix: str) -> list[Statement]:
        made: list[Statement] = []
        movers = self._movers()
        if number:
            for register, (by, kind) in movers.items():
                new = self._at(register, number)
                self.types[new] = f".b{kind[2:]}"
                before = Name(self._at(register, number - 1))
                made.append(Instruction("add", (kind,), (Name(new), before, _operand(by))))
        own = self._renaming(trip, number, suffix, movers)
        for k, (by, pointers) in enumerate(self._indexed().items()):
            far = f"%far{k}{suffix}"
            self.types[far] = ".b64"
            made.append(Instruction("mul", (".lo", ".s64"), (Name(far), Name(self._at(NUMBER, number)), Name(by))))
            for pointer in pointers:
                self.types[f"{pointer.register}a{suffix}"] = ".b64"
                at = (Name(f"{pointer.register}a{suffix}"), Name(pointer.register), Name(far))
                made.append(Instruction("add", (".s64",), at))
        for label, steps in trip.blocks:
            if label is not None:
                made.append(Label(f"{label}{suffix}"))
            made += [self._step(step, number, suffix, own) for step in steps]
        return made

    def _renaming(self, trip: Trip, number: int, suffix: str, movers: Mapping[str, object]) -> Callable[[str], str]:
        counted = trip.counted
        labels = {label for label, _ in trip.blocks if label is not None}
        defined = {d for step in trip.steps for d in isa.defs(step.instruction)} - counted.data
        known = {**counted.subject.types, **trip.types}

        def rename(name: str) -> str:
            if name in movers:
                return self._at(name, number)
            if name in labels:
                return f"{name}{suffix}"
            if name in defined:
                self.types[f"{name}{suffix}"] = known[name]
                return f"{name}{suffix}"
            return name

        return rename

    def _step(self, step: Step, number: int, suffix: str, rename: Callable[[str], str]) -> Instruction:
        renamed = rename_statement(step.instruction, rename)
        assert isinstance(renamed, Instruction)
        if step not in self.pointers:
            return renamed
        pointer, offset = self.pointers[step]
        register = pointer.register
        if pointer.indexed:
            register = f"{register}a{suffix}"
        elif isinstance(pointer.step, int):
            offset += number * pointer.step
        else:
            register = self._at(register, number)
        at = Address(Name(register), Immediate(str(offset)) if offset else None)
        operands = tuple(at if isinstance(o, Address) else o for o in renamed.operands)
        made = replace(renamed, operands=operands)
        return _non_coherent(made, pointer, self.trip.counted.subject.region) if self.read_only else made

    def _moved_on(self, unroll: int) -> list[Statement]:
        made: list[Statement] = []
        for register, (by, kind) in self._movers().items():
            last = Name(self._at(register, unroll - 1))
            made.append(Instruction("add", (kind,), (Name(register), last, _operand(by))))
        for pointer in dict.fromkeys(p for p, _ in self.pointers.values()):
            if isinstance(pointer.step, int) and pointer.step:
                bumped = (Name(pointer.register), Name(pointer.register), Immediate(str(unroll * pointer.step)))
                made.append(Instruction("add", (".s64",), bumped))
        return made


def _non_coherent(instruction: Instruction, pointer: Pointer, region: Region) -> Instruction:
    """A load of an array that a fact calls read-only, by the way that asks nobody whether it was written."""
    arrays = {
        f.left.index for f in region.facts if f.relation is Relation.READ_ONLY and isinstance(f.left, RegionInput)
    }
    held = {str(m[0].arguments[0]) for m, c in pointer.base.monomials if len(m) == 1 and c == 1}
    plain = isa.effects(instruction) == {Effect.READ} and instruction.modifiers[0] == ".global"
    if not plain or not held & {f"%in{k}" for k in arrays} or len(instruction.modifiers) != 2:
        return instruction
    return replace(instruction, modifiers=(".global", ".nc", instruction.modifiers[1]))


def _operand(text: str) -> Name | Immediate:
    return Name(text) if text.startswith("%") else Immediate(text)


def _ahead(statements: Sequence[Statement]) -> list[Statement]:
    """One trip with the loads that come before its first other effect, or label, ahead of what is made of them."""
    lasting = [k for k, s in enumerate(statements) if not isinstance(s, Instruction) or isa.effects(s) - {Effect.READ}]
    end = lasting[0] if lasting else len(statements)
    return [*_loads_first(statements[:end]), *statements[end:]]


def _loads_first(statements: Sequence[Statement]) -> list[Statement]:
    """The loads, with what their addresses need, ahead of the rest: first those that wait for no other load. Each
    kind keeps its order, so that sums are made in the order they were."""
    instructions = [s for s in statements if isinstance(s, Instruction)]
    maker: dict[str, Instruction] = {}
    written = [d for i in instructions for d in isa.defs(i)]
    needed: set[int] = set()
    depth: dict[int, int] = {}
    sources: dict[int, list[Instruction]] = {}
    for instruction in instructions:
        sources[id(instruction)] = [maker[u] for u in isa.uses(instruction) if u in maker]
        maker.update(dict.fromkeys(isa.defs(instruction), instruction))
    for instruction in instructions:
        loads = [1 if Effect.READ in isa.effects(s) else 0 for s in sources[id(instruction)]]
        depth[id(instruction)] = max(
            (depth[id(s)] + load for s, load in zip(sources[id(instruction)], loads, strict=True)), default=0
        )
    waiting = [i for i in instructions if Effect.READ in isa.effects(i)]
    while waiting:
        instruction = waiting.pop()
        if id(instruction) not in needed:
            needed.add(id(instruction))
            waiting += sources[id(instruction)]
    early = [i for i in instructions if id(i) in needed]
    again = {d for i in early for d in isa.defs(i) if written.count(d) > 1}
    if again or any(u in written and u not in maker for i in early for u in isa.uses(i)):
        return list(statements)  # an address hangs on what a trip hands to the next
    early.sort(key=lambda i: depth[id(i)])
    return [*early, *(i for i in instructions if id(i) not in needed)]


def loop_text(body: Body, plan: Plan, trips: str, width: int, done: str, *, remainder_first: bool) -> list[Statement]:
    """``trips`` > 0 trips; ``done`` is the label behind the loop."""
    unroll, first = plan.unroll, ""
    if plan.narrow and width == 64:
        first, trips, width = f"cvt.u32.u64 %few, {trips};\n", "%few", 32
        body.types["%few"] = ".b32"
    kind, bits = f".s{width}", f".b{width}"
    whole = trips.lstrip("-").isdigit() and int(trips) % unroll == 0
    names = ("%left", "%rest", "%turns")
    body.types.update(dict.fromkeys(names, bits))
    body.types.update({"%more": ".pred", "%none": ".pred"})

    def loop(label: str, counter: str, size: int) -> list[Statement]:
        tail = f"add{kind} {counter}, {counter}, -{size};\nsetp.ne{kind} %more, {counter}, 0;\n@%more bra {label};\n"
        return [Label(label), *body.turn(size, plan), *parse_statements(tail)]

    if whole:
        return [*parse_statements(f"{first}mov{bits} %turns, {trips};\n"), *loop("$MANY", "%turns", unroll)]
    if unroll == 1 and body.rest is None:
        return [*parse_statements(f"{first}mov{bits} %left, {trips};\n"), *loop("$ONE", "%left", 1)]
    head = f"{first}and{bits} %rest, {trips}, {unroll - 1};\nsub{kind} %turns, {trips}, %rest;\n"
    many = loop("$MANY", "%turns", unroll)
    one = loop("$ONE", "%rest", 1) if body.rest is None else body.last()
    if remainder_first:
        skip = f"setp.eq{kind} %none, %rest, 0;\n@%none bra $FULL;\n"
        middle = f"$FULL:\nsetp.eq{kind} %none, %turns, 0;\n@%none bra {done};\n"
        return [*parse_statements(head + skip), *one, *parse_statements(middle), *many]
    skip = f"setp.eq{kind} %none, %turns, 0;\n@%none bra $REST;\n"
    middle = f"$REST:\nsetp.eq{kind} %none, %rest, 0;\n@%none bra {done};\n"
    return [*parse_statements(head + skip), *many, *parse_statements(middle), *one]
