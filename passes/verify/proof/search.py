"""From traces to a certificate: guess relations at aligned cut points, drop what fails until the rest holds.

Nothing here is trusted. The result is a certificate that the checker proves again from the beginning; a search
that errs ends as unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from hybridcc.passes.verify.proof import entry
from hybridcc.passes.verify.proof.alignment import LEFT, START, Alignment, Pair, Run, Visit
from hybridcc.passes.verify.proof.certificate import ENTRY, EXIT, Certificate, Edge
from hybridcc.passes.verify.proof.checker import Rejected, Sites, arrival_rewriter, check_effects, order_is_free
from hybridcc.passes.verify.proof.context import Context
from hybridcc.passes.verify.proof.guess import Guesser, Register, Relations
from hybridcc.passes.verify.proof.machine import Machine
from hybridcc.passes.verify.proof.premises import Premises
from hybridcc.passes.verify.proof.product import Arrival, Stray, successors
from hybridcc.passes.verify.proof.program import Program
from hybridcc.passes.verify.proof.rewrite import Rewriter, leaves
from hybridcc.passes.verify.proof.solver import OutOfBudget, Solver
from hybridcc.passes.verify.proof.state import State
from hybridcc.passes.verify.proof.terms import Atom, Condition, Polynomial, as_atom, of_atom

ROUND_LIMIT: Final = 120
"""Explorations of one node after another before the search gives up."""

FURTHEST: Final = 40
"""Visits that one edge may skip: no rewrite unrolls further, and terms nest deeper with each."""


class Unaligned(Rejected):
    """Two paths that no run showed; ``entry`` holds entry values, by name, with which they may be met."""

    def __init__(self, where: str, what: str, entry: dict[str, int]) -> None:
        self.entry = entry
        super().__init__(where, what)


@dataclass(frozen=True, slots=True)
class Sides:
    """What the search works on."""

    base: Program
    candidate: Program
    premises: Premises
    solver: Solver
    ideal: bool = False
    """Whether to prove it in the ideal reading (lemmas.py), NaN payloads aside."""


def find(sides: Sides, alignment: Alignment, runs: list[Run], opaque: Callable[[str, str], bool]) -> Certificate:
    """A certificate for what the alignment suggests. Raises Rejected where the search fails, OutOfBudget.

    ``opaque(side, register)`` says whether a register's values are no numbers to compute with.
    """
    return _Search(sides, alignment, runs, opaque).run()


class _Search:
    def __init__(self, sides: Sides, alignment: Alignment, runs: list[Run], opaque: Callable[[str, str], bool]) -> None:
        self.sides, self.alignment, self.runs, self.opaque = sides, alignment, runs, opaque
        # A loop that no run entered is stopped at as well: it needs a run, and would else be followed round and round.
        base_stops = {pair[0] for pair in alignment.rows} | _unseen(sides.base, [run.base for run in runs])
        candidate_stops = {pair[1] for pair in alignment.rows} | _unseen(
            sides.candidate, [run.candidate for run in runs]
        )
        commuting = order_is_free(sides.base, sides.candidate)
        self.machines = (
            Machine(sides.base, "base", base_stops, commuting=commuting, ideal=sides.ideal),
            Machine(sides.candidate, "candidate", candidate_stops, commuting=commuting, ideal=sides.ideal),
        )
        self.found: dict[Pair, Relations] = {START: Relations(ENTRY, 0, 0)}
        self.found[START].edges = self._edges(START)
        self.waiting: list[Pair] = [START]
        self.guessers: dict[Pair, Guesser] = {}
        self.tried: dict[Pair, set[Condition]] = {}
        self.sites = Sites()

    def run(self) -> Certificate:
        rounds = 0
        while self.waiting:
            rounds += 1
            if rounds > ROUND_LIMIT:
                raise OutOfBudget(f"{ROUND_LIMIT} rounds of weakening")
            self._explore(self.waiting.pop(0))
        nodes = tuple(relations.node() for relations in self.found.values())
        names = {node.name for node in nodes}
        for relations in self.found.values():  # an alignment may name pairs that no feasible path reaches
            relations.edges = tuple(e for e in relations.edges if e.target in names)
        nodes = tuple(relations.node() for relations in self.found.values())
        return Certificate(self.sides.base.digest, self.sides.candidate.digest, nodes, self.sides.ideal)

    def _edges(self, pair: Pair) -> tuple[Edge, ...]:
        known = self.alignment.edges.get(pair, set())
        if pair == START:
            known = known | self._first_steps(known)
        steps = sorted(known, key=lambda step: (step[1], step[2], step[0]))
        return tuple(Edge(_name(target), m, k) for target, m, k in steps if target != LEFT and max(m, k) <= FURTHEST)

    def _first_steps(self, known: set[tuple[Pair, int, int]]) -> set[tuple[Pair, int, int]]:
        """From the start straight to any pair, unless runs met one of its places otherwise: few runs begin rarely."""
        uneven = [pair for pair, m, k in known if (m, k) != (1, 1)]
        base, candidate = {p for p, _ in uneven}, {q for _, q in uneven}
        return {(pair, 1, 1) for pair in self.alignment.rows if pair[0] not in base and pair[1] not in candidate}

    def _explore(self, pair: Pair) -> None:
        relations = self.found[pair]
        node = relations.node()
        premises = self.sides.premises
        context = Context(self.sides.solver, (*premises.conditions, *node.conditions), premises.separate)
        start = (
            State("base", dict(node.base), node.memory, node.base_at),
            State("candidate", dict(node.candidate), node.memory, node.candidate_at),
            context,
        )
        for found in successors(node, _places, start, self.machines[0].advance, self.machines[1].advance):
            if isinstance(found, Stray):
                raise Unaligned(
                    node.name,
                    f"no alignment: the baseline at {self.machines[0].place(found.base.at)} "
                    f"after {found.visits[0]} cut points, "
                    f"the candidate at {self.machines[1].place(found.candidate.at)} after {found.visits[1]}",
                    _entry_of(found.context),
                )
            where = f"{node.name} -> {found.edge.target if found.edge else EXIT}"
            check_effects(found, self.machines[0], self.sites, where)
            if found.edge is not None:
                self._arrive(_places(found.edge.target), found, where)

    def _arrive(self, pair: Pair, found: Arrival, where: str) -> None:
        relations = self.found.get(pair)
        if relations is None:
            relations = self.found[pair] = self._guess(pair, found)
            self.waiting.append(pair)
        before = (relations.weakened, tuple(relations.conditions))
        symbols = len(relations.symbols)
        while self._weaken_terms(relations, found, where):
            pass
        if len(relations.symbols) > symbols:
            self._guess_again(pair, relations)
        rewriter = self._rewriter(relations, found, where)
        relations.conditions = list(dict.fromkeys(self._kept(relations, found, rewriter)))
        if (relations.weakened, tuple(relations.conditions)) != before and pair not in self.waiting:
            self.waiting.append(pair)

    def _guess_again(self, pair: Pair, relations: Relations) -> None:
        """Conditions on symbols that took the place of terms: a path that came first had said what they are."""
        tried = self.tried.setdefault(pair, set(relations.conditions))
        new = [c for c in self.guessers[pair].about_symbols(relations) if c not in tried]
        tried.update(new)
        relations.conditions += new
        if new:  # every way here has to bear them out
            name = _name(pair)
            self.waiting += [
                other
                for other, known in self.found.items()
                if other not in self.waiting and any(edge.target == name for edge in known.edges)
            ]

    def _kept(self, relations: Relations, found: Arrival, rewriter: Rewriter) -> Iterator[Condition]:
        for condition in relations.conditions:
            kept: Condition | None = condition
            while kept is not None and not found.context.holds(rewriter.condition(kept)):
                kept = relations.weaker.get(kept)
            if kept is not None:
                yield kept

    def _rewriter(self, relations: Relations, found: Arrival, where: str) -> Rewriter:
        values = {
            s.name: (found.base if s.side == "base" else found.candidate).registers.get(s.register)
            for s in relations.symbols.values()
        }
        return arrival_rewriter(relations.node(), values, found.base.memory, found.context, where)

    def _weaken_terms(self, relations: Relations, found: Arrival, where: str) -> bool:
        """Weaken every register that does not arrive as its term says; True if any did."""
        rewriter = self._rewriter(relations, found, where)
        failed: list[Register] = []
        for register, term in list(relations.terms.items()):
            got = _arrived(found, register)
            if got is None:
                del relations.terms[register]
                relations.weakened += 1
            elif not found.context.same(got, rewriter.argument(term)):
                failed.append(register)
        if any(s.side == r[0] and s.register == r[1] for s in relations.symbols.values() for r in failed):
            raise Rejected(where, "a register does not arrive as its own symbol")
        # What a single symbol stood for splits first: other terms may hold with one of its parts.
        failed.sort(key=lambda r: not _is_symbol(relations.terms[r]))
        splits: dict[Atom, list[Polynomial]] = {}
        while failed:
            first = failed[0]
            group = [r for r in failed if self._alike(relations, found, first, r)]
            failed = [r for r in failed if r not in group]
            if not self._with_a_part(relations, found, group, splits, where):
                old = relations.terms[first]
                relations.weaken(group)
                new = relations.terms[first]
                if isinstance(old, Polynomial) and isinstance(new, Polynomial) and _is_symbol(old):
                    splits.setdefault(old.monomials[0][0][0], []).append(new)
            rewriter = None
        return rewriter is None

    def _alike(self, relations: Relations, found: Arrival, first: Register, other: Register) -> bool:
        """Whether two registers had one term and still have one value."""
        same_term = relations.terms[first] is relations.terms[other]
        return same_term and found.context.same(_arrived(found, first), _arrived(found, other))

    def _with_a_part(
        self,
        relations: Relations,
        found: Arrival,
        group: list[Register],
        splits: dict[Atom, list[Polynomial]],
        where: str,
    ) -> bool:
        """Keep a term with one of its symbols replaced by a part that was split off, if it then holds."""
        term = relations.terms[group[0]]
        for old, parts in splits.items():
            for part in parts:
                changed = Rewriter(atoms={old: part}).argument(term)
                if changed is term or not isinstance(changed, (Polynomial, Condition)):
                    continue
                rewriter = self._rewriter(relations, found, where)
                if found.context.same(_arrived(found, group[0]), rewriter.argument(changed)):
                    relations.terms.update(dict.fromkeys(group, changed))
                    relations.weakened += 1
                    return True
        return False

    def _own_conditions(self, found: Arrival) -> tuple[Condition, ...]:
        """What the path added to the premises, which every node has anyway."""
        premises = frozenset(self.sides.premises.conditions)
        return tuple(c for c in found.context.conditions if c not in premises)

    def _guess(self, pair: Pair, found: Arrival) -> Relations:
        arrived: dict[Register, Polynomial | Condition] = {}
        opaque: list[Register] = []
        rows = self.alignment.rows.get(pair, [])
        for machine, at, state in zip(self.machines, pair, (found.base, found.candidate), strict=True):
            for name in sorted(machine.program.live_before(at)):
                value = state.registers.get(name)
                if value is None or any(name not in (r.base if machine.side == "base" else r.candidate) for r in rows):
                    continue
                arrived[machine.side, name] = value
                if self.opaque(machine.side, name):
                    opaque.append((machine.side, name))
        guesser = Guesser(rows, [dict(run.entry) for run in self.runs], opaque)
        self.guessers[pair] = guesser
        relations = guesser.relations(_name(pair), pair, arrived, self._own_conditions(found))
        relations.edges = self._edges(pair)
        return relations


def _unseen(program: Program, sides: Iterable[Iterable[Visit]]) -> set[int]:
    return set(program.loop_heads) - {visit.at for visits in sides for visit in visits}


def _entry_of(context: Context) -> dict[str, int]:
    """Entry values that go with a path's conditions, as far as the solver understands them."""
    model = context.solver.check(context.conditions)[1]
    if model is None:
        return {}
    found: dict[str, int] = {}
    for leaf in frozenset().union(*map(leaves, context.conditions)):
        if isinstance(leaf, Atom) and entry.named(str(leaf.arguments[0]), leaf.width) is not None:
            found[str(leaf.arguments[0])] = model.number(context.solver.polynomial(of_atom(leaf)))
    for name, value in list(found.items()):  # a parameter is read at several widths
        kind, index, *rest = name.split(":")
        if kind == "parameter" and rest[0] == "0":
            found |= {f"{kind}:{index}:0:{bits}": value & ((1 << bits) - 1) for bits in (8, 16, 32, 64)}
    return found


def _arrived(found: Arrival, register: Register) -> Polynomial | Condition | None:
    side, name = register
    return (found.base if side == "base" else found.candidate).registers.get(name)


def _is_symbol(term: Polynomial | Condition) -> bool:
    single = as_atom(term) if isinstance(term, Polynomial) else None
    return single is not None and single.operation == "variable"


def _name(pair: Pair) -> str:
    return ENTRY if pair == START else f"{pair[0]}:{pair[1]}"


def _places(name: str) -> Pair:
    if name == ENTRY:
        return START
    first, second = name.split(":")
    return int(first), int(second)
