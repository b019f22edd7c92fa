"""The judge: does a certificate prove that two kernels are equal? No search, no guess.

Claim. Take any launch that satisfies the premises and any thread of it. If every node's obligations below hold,
the two kernels perform the same stores, atomics, barriers and volatile accesses, in the same order, with the
same addresses and values, leave in the same way, and either both end or neither does.

Argument. By induction over visits of nodes. The entry node relates the two starts. At a node some values of its
symbols make its relations true. ``product.successors`` follows every feasible pair of paths from there, both
sides starting with the one memory of the node, until the pair stands at the node of an edge or both have left:
a pair that strays is refused. On arrival the checker shows, under the path's conditions alone, that

* the memories are equal terms: the effects were the same, in order;
* the candidate touched no location that the baseline did not touch on this stretch, or is sure to load on its
  next, and asks for no stricter alignment;
* a barrier of the baseline has one place in the candidate, or all threads of a block go alike (lockstep.py);
* for the symbols' new values, read off the registers that define them, each register holds its term and each
  condition of the target holds.

A certificate in the ideal reading (lemmas.py) proves the same claim with the payloads of NaNs in memory aside, once
payloads.py has shown for each kernel that it cannot tell them apart.

Each edge moves both sides, so neither side can go on for ever while the other waits.

What must be right besides this file: the semantics and their reading as terms (machine.py, term_algebra.py), the
normal forms (terms.py, bitvector.py, memory.py, rewrite.py), the context, and the solver's "unsatisfiable".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hybridcc.passes.verify.proof import entry, lockstep, payloads
from hybridcc.passes.verify.proof.bitvector import bitwise_and
from hybridcc.passes.verify.proof.certificate import ENTRY, SYMBOL_PREFIX, Certificate, Edge, Node
from hybridcc.passes.verify.proof.context import Context
from hybridcc.passes.verify.proof.contraction import contractible_pairs
from hybridcc.passes.verify.proof.machine import Machine
from hybridcc.passes.verify.proof.premises import Premises
from hybridcc.passes.verify.proof.product import Arrival, Stray, successors
from hybridcc.passes.verify.proof.program import Program
from hybridcc.passes.verify.proof.rewrite import Rewriter, leaves
from hybridcc.passes.verify.proof.solver import Solver
from hybridcc.passes.verify.proof.state import EXITED, Access, State
from hybridcc.passes.verify.proof.terms import (
    Argument,
    Atom,
    Condition,
    Memory,
    Polynomial,
    as_atom,
    bit,
    constant,
    equal,
    sub,
    variable,
)


class Rejected(Exception):
    """The certificate does not prove it; ``where`` names the node and edge, ``what`` the obligation that fails."""

    def __init__(self, where: str, what: str) -> None:
        self.where, self.what = where, what
        super().__init__(f"{where}: {what}")


def check(certificate: Certificate, base: Program, candidate: Program, premises: Premises, solver: Solver) -> None:
    """Return if the certificate proves the two programs equal; raise Rejected, OutOfBudget or TimeLimit if not.

    Raises Unsupported where a program holds something that has no meaning as terms.
    """
    if (certificate.base, certificate.candidate) != (base.digest, candidate.digest):
        raise Rejected("certificate", "it is about other kernels")
    if base.interface != candidate.interface:
        raise Rejected("interface", "parameters, directives or variables differ")
    unwritten = candidate.live_before(0) if base.digest != candidate.digest else frozenset()
    if unwritten:  # not even one unknown value, nor the baseline's own: the assembler may give each use another
        raise Rejected("interface", f"{', '.join(sorted(unwritten))} may be read before it is written")
    if premises.conditions and solver.check(premises.conditions)[0] == "unsat":
        raise Rejected("facts", "no launch keeps all of them, so that they would prove anything")
    _check_shape(certificate)
    inner = [node for node in certificate.nodes if node.name != ENTRY]
    commuting, ideal = order_is_free(base, candidate), certificate.ideal
    if ideal:
        _check_payloads(base, candidate)
    machines = (
        Machine(base, "base", {n.base_at for n in inner}, commuting=commuting, ideal=ideal),
        Machine(candidate, "candidate", {n.candidate_at for n in inner}, commuting=commuting, ideal=ideal),
    )
    sites = Sites()
    stretches: list[lockstep.Stretch] = []
    for node in certificate.nodes:
        for found in arrivals(certificate, node, machines, premises, solver):
            where = f"{node.name} -> {found.edge.target if isinstance(found.edge, Edge) else 'exit'}"
            check_effects(found, machines[0], sites, where)
            values: dict[str, lockstep.Value] = {}
            if found.edge is not None:
                target = certificate.node(found.edge.target)
                values = _check_arrival(target, found.base, found.candidate, found.context, where)
            stretches.append(_stretch(node, found, values))
    if sites.copied:
        try:
            lockstep.check(stretches, solver)
        except lockstep.Apart as apart:
            several = f"{sites.copied} of the baseline stands at several places of the candidate"
            raise Rejected("barriers", f"{several}, and {apart}") from apart


def _stretch(node: Node, found: Arrival, values: dict[str, lockstep.Value]) -> lockstep.Stretch:
    sites = zip(found.base.convergent, found.candidate.convergent, strict=True)
    passed = tuple((at, other) for (at, _), (other, _) in sites)
    target = None if found.edge is None else found.edge.target
    return lockstep.Stretch(node.name, target, passed, found.context.conditions, values)


def _check_payloads(base: Program, candidate: Program) -> None:
    try:
        payloads.check(base)
        payloads.check(candidate)
    except payloads.PayloadSeen as error:
        raise Rejected("NaN payloads", str(error)) from error


def order_is_free(base: Program, candidate: Program) -> bool:
    """Whether operand order is no concern of the assembler's: neither kernel holds a contractible pair."""
    return not (contractible_pairs(base) or contractible_pairs(candidate))


def arrivals(
    certificate: Certificate,
    node: Node,
    machines: tuple[Machine, Machine],
    premises: Premises,
    solver: Solver,
) -> Iterator[Arrival]:
    """Every pair of feasible paths from a node to the next; raises Rejected for one that no edge expects."""
    context = Context(solver, (*premises.conditions, *node.conditions), premises.separate)
    start = (
        State("base", dict(node.base), node.memory, node.base_at),
        State("candidate", dict(node.candidate), node.memory, node.candidate_at),
        context,
    )

    def places(name: str) -> tuple[int, int]:
        target = certificate.node(name)
        return target.base_at, target.candidate_at

    for found in successors(node, places, start, machines[0].advance, machines[1].advance):
        if isinstance(found, Stray):
            raise Rejected(
                node.name,
                f"the baseline reaches {machines[0].place(found.base.at)} after {found.visits[0]} cut points, "
                f"the candidate {machines[1].place(found.candidate.at)} after {found.visits[1]}",
            )
        yield found


def _check_shape(certificate: Certificate) -> None:
    names = [node.name for node in certificate.nodes]
    if len(set(names)) != len(names) or names.count(ENTRY) != 1:
        raise Rejected("certificate", "nodes need distinct names, and one is the entry")
    symbols = [s.name for node in certificate.nodes for s in node.symbols]
    if len(set(symbols)) != len(symbols) or not all(s.startswith(SYMBOL_PREFIX) for s in symbols):
        raise Rejected("certificate", f"symbols need distinct names that start with {SYMBOL_PREFIX}")
    for node in certificate.nodes:
        if node.name == ENTRY and (
            node.base_at or node.candidate_at or node.symbols or node.base or node.candidate or node.conditions
        ):
            raise Rejected(node.name, "the entry assumes nothing but the premises")
        for edge in node.edges:
            if edge.target == ENTRY or edge.target not in names:
                raise Rejected(node.name, f"an edge to {edge.target}")
            if edge.base_visits < 1 or edge.candidate_visits < 1:
                raise Rejected(node.name, "an edge that leaves one side standing")
        _check_closed(node)


def _check_closed(node: Node) -> None:
    """A node's relations speak of entry values, its own symbols and its own memory, and of nothing else."""
    own: set[Atom | Memory] = {node.memory, entry.memory()}
    own.update(a for s in node.symbols if (a := as_atom(variable(s.name, s.width))) is not None)
    for term in (*node.base.values(), *node.candidate.values(), *node.conditions):
        for leaf in leaves(term):
            known = isinstance(leaf, Atom) and entry.named(str(leaf.arguments[0]), leaf.width) is not None
            if leaf not in own and not known:
                raise Rejected(node.name, f"a relation about {leaf}, which is not the node's")


@dataclass(slots=True)
class Sites:
    """Over a whole proof: where each barrier, shuffle and vote of the baseline stands in the candidate.

    ``copied`` names a barrier that stands at several places, which lockstep.py has to allow.
    """

    places: dict[tuple[int, str], int] = field(default_factory=dict)
    copied: str = ""


def check_effects(found: Arrival, base: Machine, sites: Sites, where: str) -> None:
    """The same writes, effects and endings, and nothing touched that the baseline does not touch."""
    p, q, context = found.base, found.candidate, found.context
    if p.ending != q.ending:
        raise Rejected(where, f"the baseline leaves by {p.ending}, the candidate by {q.ending}")
    _check_memories(p.memory, q.memory, context, where)
    if [name for _, name in p.convergent] != [name for _, name in q.convergent]:
        raise Rejected(where, "barriers, shuffles or votes differ")
    for (at, name), (other, _) in zip(p.convergent, q.convergent, strict=True):
        # All threads of a warp that meet at one instruction of the baseline must meet at one of the candidate.
        if sites.places.setdefault((at, name), other) != other:
            if not name.startswith(("bar.", "barrier.")) or ".cluster" in name:
                raise Rejected(where, f"{name} of the baseline stands at several places of the candidate")
            sites.copied = name
    _check_stores(p, q, context, where)
    _check_loads(found, base, where)


def _check_stores(p: State, q: State, context: Context, where: str) -> None:
    for access in q.stores:
        if not _touched(access, p.stores, context):
            raise Rejected(where, f"a store to {access.space} {access.address} asks for more alignment"[:400])


def _check_loads(found: Arrival, base: Machine, where: str) -> None:
    """What the candidate loads, the baseline loads on the same path, or is sure to load on its very next stretch.

    A load that runs ahead may run ahead of branches, but of no barrier or other effect: up to there the baseline
    reads the same memory, and if the address is bad it is the baseline that is undefined.
    """
    p, context = found.base, found.context
    early = [a for a in found.candidate.loads if not _touched(a, p.loads, context)]
    if not early:
        return
    later: list[tuple[State, Context]] = []
    if p.at != EXITED:
        start = p.copy()
        start.loads.clear()
        later = [(s, c) for s, c in base.advance(start, context) if not c.contradictory()]
    for access in early:
        sure = later and all(_only_stores(s.memory, p.memory) and _touched(access, s.loads, c) for s, c in later)
        if not sure:
            raise Rejected(where, f"the baseline does not load {access.space} {access.address}"[:400])


def _only_stores(after: Memory, before: Memory) -> bool:
    while after is not before:
        if after.kind != "store":
            return False
        earlier = after.arguments[0]
        assert isinstance(earlier, Memory)
        after = earlier
    return True


def _touched(access: Access, old: list[Access], context: Context) -> bool:
    return access in old or any(_covers(access, other, context) for other in _nearest(access, old, context))


def _nearest(access: Access, old: list[Access], context: Context) -> list[Access]:
    """Those whose address looks most alike first: it saves questions and settles nothing."""
    address = context.simplified(access.address)
    alike = [other for other in old if other.space == access.space and other.address.width == address.width]
    return sorted(alike, key=lambda other: len(sub(address, context.simplified(other.address)).monomials))


def _check_memories(p: Memory, q: Memory, context: Context, where: str) -> None:
    effects: list[tuple[tuple[Argument, ...], tuple[Argument, ...]]] = []
    while p is not q:
        if p.kind != q.kind or p.kind == "initial" or len(p.arguments) != len(q.arguments):
            raise Rejected(where, f"stores or effects differ: {p} and {q}"[:400])
        effects.append((p.arguments, q.arguments))
        before, other = p.arguments[0], q.arguments[0]
        assert isinstance(before, Memory)
        assert isinstance(other, Memory)
        p, q = before, other
    for xs, ys in reversed(effects):
        for x, y in zip(xs[1:], ys[1:], strict=True):
            if not context.same(x, y):
                raise Rejected(where, f"a store or effect differs: {x} and {y}"[:600])


def _covers(access: Access, other: Access, context: Context) -> bool:
    if access.space != other.space or access.width > other.width:
        return False
    if not context.same(access.address, other.address):
        return False
    if access.required <= other.granted:
        return True
    low = bitwise_and(access.address, constant(access.required - 1, access.address.width))
    return context.holds(equal(low, constant(0, access.address.width)))


def _check_arrival(target: Node, p: State, q: State, context: Context, where: str) -> dict[str, lockstep.Value]:
    """What the target's symbols are on arrival."""
    values: dict[str, lockstep.Value] = {
        name: (p if side == "base" else q).registers.get(register)
        for name, side, register in ((s.name, s.side, s.register) for s in target.symbols)
    }
    rewriter = arrival_rewriter(target, values, p.memory, context, where)
    for registers, state in ((target.base, p), (target.candidate, q)):
        for register, term in registers.items():
            got = state.registers.get(register)
            want = rewriter.argument(term)
            if got is None or not context.same(got, want):
                raise Rejected(where, f"{state.side} {register} is {got}, not {want}"[:600])
    for condition in target.conditions:
        if not context.holds(rewriter.condition(condition)):
            raise Rejected(where, f"{condition} does not hold"[:400])
    return values


def arrival_rewriter(
    target: Node,
    values: Mapping[str, Polynomial | Condition | None],
    reached: Memory,
    context: Context,
    where: str,
) -> Rewriter:
    """Replaces a node's symbols by what they are on arrival, and its memory by the one that was reached."""
    atoms: dict[Atom, Polynomial] = {}
    for symbol in target.symbols:
        value = values.get(symbol.name)
        if isinstance(value, Condition):
            value = bit(value, 1)
        if value is None or value.width != symbol.width:
            raise Rejected(where, f"{symbol.side} {symbol.register} does not give a {symbol.width}-bit symbol")
        single = as_atom(variable(symbol.name, symbol.width))
        assert single is not None
        atoms[single] = value
    return Rewriter(atoms, {target.memory: reached}, context.decide, context.separate)
