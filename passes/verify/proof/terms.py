"""Hash-consed terms: bit-vector polynomials, conditions and memories, each in a normal form.

A bit-vector of width w is a polynomial over Z/2^w in interned atoms, so sums, differences, products and shifts
by constants are equal exactly when their normal forms are the same object. A condition enters a polynomial
as a 0/1 atom ``bit`` with ``bit*bit == bit``. Everything the ring does not know (bitwise operations, shifts by
variables, division, loads, floating point) is an atom over its operands; ``bitvector.py`` builds those.

Interning makes equality identity. ``forget`` starts over, for a new proof: terms made before it must not meet
terms made after it (they would compare unequal, which loses proofs and never invents one).
"""

from __future__ import annotations

from typing import Final, TypeAlias

MONOMIAL_LIMIT: Final = 4000
"""Largest polynomial that is built; a product beyond it raises TermTooLarge."""


class TermTooLarge(Exception):
    """A polynomial outgrew MONOMIAL_LIMIT; a proof that meets it ends as unknown."""


class Atom:
    """One indeterminate: ``operation`` applied to ``arguments``, a bit-vector of ``width`` bits.

    ``index`` numbers atoms in order of creation and orders monomials. ``bound`` is an unsigned upper bound
    of the value that follows from the atom's form alone.
    """

    __slots__ = ("arguments", "bound", "index", "operation", "width")

    operation: str
    arguments: tuple[Argument, ...]
    width: int
    index: int
    bound: int

    def __repr__(self) -> str:
        return show_atom(self)


Monomial: TypeAlias = tuple[Atom, ...]


class Polynomial:
    """Σ coefficient * monomial mod 2^width; ``monomials`` is sorted, coefficients lie in [1, 2^width)."""

    __slots__ = ("monomials", "width")

    width: int
    monomials: tuple[tuple[Monomial, int], ...]

    def __repr__(self) -> str:
        return show(self)


class Condition:
    """A truth value: true, false, not, and, eq (polynomial == 0), slt, ult, or an uninterpreted predicate."""

    __slots__ = ("arguments", "index", "kind")

    kind: str
    arguments: tuple[Argument, ...]
    index: int

    def __repr__(self) -> str:
        return show(self)


class Memory:
    """A memory: ``initial`` (a name), ``store`` (memory, space, bytes, address, value) or ``effect``.

    An effect (memory, name, operands) is an atomic, a barrier, a fence or a volatile access: after it every
    location may hold anything, and that anything is a function of the memory before and of the operands.
    """

    __slots__ = ("arguments", "index", "kind")

    kind: str
    arguments: tuple[Argument, ...]
    index: int

    def __repr__(self) -> str:
        return show(self)


Term: TypeAlias = Polynomial | Condition | Memory
Argument: TypeAlias = Polynomial | Condition | Memory | str | int | None

_atoms: dict[tuple[object, ...], Atom] = {}
_polynomials: dict[tuple[object, ...], Polynomial] = {}
_conditions: dict[tuple[object, ...], Condition] = {}
_memories: dict[tuple[object, ...], Memory] = {}


def forget() -> None:
    """Drop every interned term."""
    for table in (_atoms, _polynomials, _conditions, _memories):
        table.clear()
    for constant in (TRUE, FALSE):
        _conditions[(constant.kind, constant.arguments)] = constant


# --- making ---------------------------------------------------------------------------------------------


def atom(operation: str, arguments: tuple[Argument, ...], width: int, bound: int | None = None) -> Polynomial:
    """The interned atom as a polynomial. ``bound`` is given by the maker, from the operation alone."""
    key = (operation, arguments, width)
    found = _atoms.get(key)
    if found is None:
        found = Atom()
        found.operation, found.arguments, found.width = operation, arguments, width
        found.index = len(_atoms)
        found.bound = (1 << width) - 1 if bound is None else min(bound, (1 << width) - 1)
        _atoms[key] = found
    return _intern(width, (((found,), 1),))


def variable(name: str, width: int, bound: int | None = None) -> Polynomial:
    """A free bit-vector."""
    return atom("variable", (name,), width, bound)


def constant(value: int, width: int) -> Polynomial:
    value &= (1 << width) - 1
    return _intern(width, (((), value),) if value else ())


def of_atom(single: Atom) -> Polynomial:
    return _intern(single.width, (((single,), 1),))


def from_monomials(width: int, coefficients: dict[Monomial, int]) -> Polynomial:
    """The polynomial with these coefficients, taken modulo 2^width."""
    mask = (1 << width) - 1
    kept = [(m, c & mask) for m, c in coefficients.items() if c & mask]
    if len(kept) > MONOMIAL_LIMIT:
        raise TermTooLarge
    kept.sort(key=_order)
    return _intern(width, tuple(kept))


def _order(entry: tuple[Monomial, int]) -> tuple[int, ...]:
    return tuple(a.index for a in entry[0])


def _intern(width: int, monomials: tuple[tuple[Monomial, int], ...]) -> Polynomial:
    key = (width, monomials)
    found = _polynomials.get(key)
    if found is None:
        found = Polynomial()
        found.width, found.monomials = width, monomials
        _polynomials[key] = found
    return found


def _condition(kind: str, *arguments: Argument) -> Condition:
    key = (kind, arguments)
    found = _conditions.get(key)
    if found is None:
        found = Condition()
        found.kind, found.arguments, found.index = kind, arguments, len(_conditions)
        _conditions[key] = found
    return found


TRUE: Final = _condition("true")
FALSE: Final = _condition("false")


def memory(kind: str, *arguments: Argument) -> Memory:
    key = (kind, arguments)
    found = _memories.get(key)
    if found is None:
        found = Memory()
        found.kind, found.arguments, found.index = kind, arguments, len(_memories)
        _memories[key] = found
    return found


def predicate(name: str, arguments: tuple[Argument, ...]) -> Condition:
    """An uninterpreted truth value: a function of its name and arguments."""
    return _condition("predicate", name, *arguments)


# --- the ring -------------------------------------------------------------------------------------------


def as_constant(p: Polynomial) -> int | None:
    """The unsigned value, or None if it is not a constant."""
    if not p.monomials:
        return 0
    if len(p.monomials) == 1 and not p.monomials[0][0]:
        return p.monomials[0][1]
    return None


def as_atom(p: Polynomial) -> Atom | None:
    """The atom, if the polynomial is exactly one atom."""
    if len(p.monomials) == 1 and len(p.monomials[0][0]) == 1 and p.monomials[0][1] == 1:
        return p.monomials[0][0][0]
    return None


def signed(value: int, width: int) -> int:
    """The value of a bit pattern in two's complement."""
    return value - (1 << width) if value >> (width - 1) else value


def add(a: Polynomial, b: Polynomial) -> Polynomial:
    _same_width(a, b)
    if not b.monomials:
        return a
    if not a.monomials:
        return b
    total = dict(a.monomials)
    for monomial, coefficient in b.monomials:
        total[monomial] = total.get(monomial, 0) + coefficient
    return from_monomials(a.width, total)


def scale(a: Polynomial, factor: int) -> Polynomial:
    if factor == 1:
        return a
    return from_monomials(a.width, {m: c * factor for m, c in a.monomials})


def sub(a: Polynomial, b: Polynomial) -> Polynomial:
    return constant(0, a.width) if a is b else add(a, scale(b, -1))


def mul(a: Polynomial, b: Polynomial) -> Polynomial:
    _same_width(a, b)
    total: dict[Monomial, int] = {}
    for left, c in a.monomials:
        for right, d in b.monomials:
            product = _times(left, right)
            total[product] = total.get(product, 0) + c * d
        if len(total) > MONOMIAL_LIMIT:
            raise TermTooLarge
    return from_monomials(a.width, total)


def _times(left: Monomial, right: Monomial) -> Monomial:
    if not left:
        return right
    if not right:
        return left
    product: list[Atom] = []
    for factor in sorted(left + right, key=_index):
        if product and product[-1] is factor and factor.operation == "bit":
            continue  # bit*bit == bit
        product.append(factor)
    return tuple(product)


def _index(single: Atom) -> int:
    return single.index


def _same_width(a: Polynomial, b: Polynomial) -> None:
    if a.width != b.width:
        raise ValueError(f"widths differ: {a.width} and {b.width} bits")


# --- conditions -----------------------------------------------------------------------------------------


def negation(c: Condition) -> Condition:
    if c is TRUE:
        return FALSE
    if c is FALSE:
        return TRUE
    if c.kind == "not":
        inner = c.arguments[0]
        assert isinstance(inner, Condition)
        return inner
    return _condition("not", c)


def conjunction(a: Condition, b: Condition) -> Condition:
    if a is FALSE or b is FALSE or a is negation(b):
        return FALSE
    if a is TRUE or a is b:
        return b
    if b is TRUE:
        return a
    return _condition("and", a, b) if a.index <= b.index else _condition("and", b, a)


def disjunction(a: Condition, b: Condition) -> Condition:
    return negation(conjunction(negation(a), negation(b)))


def equal(a: Polynomial, b: Polynomial) -> Condition:
    difference = sub(a, b)
    value = as_constant(difference)
    if value is not None:
        return TRUE if value == 0 else FALSE
    truth = _bit_equation(difference)
    if truth is not None:
        return truth
    half = 1 << (difference.width - 1)
    if difference.monomials[-1][1] > half:  # p == 0 and -p == 0 are one condition
        difference = scale(difference, -1)
    return _condition("eq", difference)


def _bit_equation(p: Polynomial) -> Condition | None:
    """``p == 0`` where p is c + d*bit: decided, or the bit's own condition."""
    parts = dict(p.monomials)
    offset = parts.pop((), 0)
    if len(parts) != 1:
        return None
    ((monomial, coefficient),) = parts.items()
    if len(monomial) != 1 or monomial[0].operation != "bit":
        return None
    inner = monomial[0].arguments[0]
    assert isinstance(inner, Condition)
    if offset == 0:
        return negation(inner)
    if (offset + coefficient) & ((1 << p.width) - 1) == 0:
        return inner
    return FALSE


def signed_less(a: Polynomial, b: Polynomial) -> Condition:
    _same_width(a, b)
    x, y = as_constant(a), as_constant(b)
    top = 1 << (a.width - 1)
    if a is b:
        return FALSE
    if x is not None and y is not None:
        return TRUE if signed(x, a.width) < signed(y, a.width) else FALSE
    if y == top or x == top - 1:
        return FALSE  # nothing is below the least, or above the greatest
    if x is not None:  # c < b is not (b < c + 1): constants stand on the right
        return negation(_condition("slt", b, constant(x + 1, a.width)))
    return _condition("slt", a, b)


def unsigned_less(a: Polynomial, b: Polynomial) -> Condition:
    _same_width(a, b)
    x, y = as_constant(a), as_constant(b)
    top = 1 << (a.width - 1)
    if a is b:
        return FALSE
    if x is not None and y is not None:
        return TRUE if x < y else FALSE
    if y == 0 or x == 2 * top - 1:
        return FALSE
    if x is not None:
        return negation(unsigned_less(b, constant(x + 1, a.width)))
    if y == 1:
        return equal(a, constant(0, a.width))
    if y == top:
        return negation(signed_less(a, constant(0, a.width)))
    only = as_atom(a)
    if only is not None and y is not None and only.bound < y:
        return TRUE
    return _condition("ult", a, b)


def bit(c: Condition, width: int) -> Polynomial:
    """1 where the condition holds, else 0. A conjunction becomes a product, a negation 1 - bit."""
    if c is TRUE:
        return constant(1, width)
    if c is FALSE:
        return constant(0, width)
    if c.kind == "not":
        inner = c.arguments[0]
        assert isinstance(inner, Condition)
        return sub(constant(1, width), bit(inner, width))
    if c.kind == "and":
        left, right = c.arguments
        assert isinstance(left, Condition)
        assert isinstance(right, Condition)
        return mul(bit(left, width), bit(right, width))
    return atom("bit", (c,), width, 1)


def select(c: Condition, a: Polynomial, b: Polynomial) -> Polynomial:
    """``a`` where the condition holds, else ``b``."""
    if c is TRUE:
        return a
    if c is FALSE:
        return b
    if a is b:
        return a
    return add(b, mul(sub(a, b), bit(c, a.width)))


def choose(c: Condition, a: Condition, b: Condition) -> Condition:
    """The condition ``a`` where ``c`` holds, else ``b``."""
    return disjunction(conjunction(c, a), conjunction(negation(c), b))


def as_condition(p: Polynomial) -> Condition | None:
    """The condition whose 0/1 value the polynomial is, if its form shows one."""
    value = as_constant(p)
    if value is not None:
        return (FALSE, TRUE)[value] if value < 2 else None
    single = as_atom(p)
    if single is not None and single.operation == "bit":
        inner = single.arguments[0]
        assert isinstance(inner, Condition)
        return inner
    if dict(p.monomials).get(()) == 1:
        flipped = as_atom(sub(constant(1, p.width), p))
        if flipped is not None and flipped.operation == "bit":
            inner = flipped.arguments[0]
            assert isinstance(inner, Condition)
            return negation(inner)
    return None


# --- showing --------------------------------------------------------------------------------------------


def show(term: Argument) -> str:
    """One line for people; not read back (certificate.py writes terms for machines)."""
    match term:
        case Polynomial():
            return _show_polynomial(term)
        case Condition() if term.kind == "eq":
            return f"{show(term.arguments[0])} == 0"
        case Condition() if term.kind in ("slt", "ult"):
            return f"{show(term.arguments[0])} <{'s' if term.kind == 'slt' else 'u'} {show(term.arguments[1])}"
        case Condition() if not term.arguments:
            return term.kind
        case Condition() | Memory():
            return f"{term.kind}({', '.join(show(a) for a in term.arguments)})"
        case _:
            return str(term)


def _show_polynomial(p: Polynomial) -> str:
    pieces: list[str] = []
    for monomial, coefficient in p.monomials:
        factors = "*".join(show_atom(a) for a in monomial)
        c = signed(coefficient, p.width) if p.width > 1 else coefficient
        if not monomial:
            pieces.append(str(c))
        else:
            pieces.append(factors if c == 1 else f"-{factors}" if c == -1 else f"{c}*{factors}")
    return " + ".join(pieces).replace("+ -", "- ") or "0"


def show_atom(single: Atom) -> str:
    if single.operation == "variable":
        return str(single.arguments[0])
    if single.operation == "bit":
        return f"[{show(single.arguments[0])}]"
    return f"{single.operation}({', '.join(show(a) for a in single.arguments)})"
