"""Facts as plain data, for bundles: a proof can be checked again only with what it rests on."""

from __future__ import annotations

from typing import Any, assert_never

from hybridcc.errors import InputError
from hybridcc.passes.facts import (
    Bytes,
    Fact,
    Origin,
    Parameter,
    RegionInput,
    RegionValue,
    Relation,
    Special,
    Sum,
    Term,
)


def to_data(fact: Fact) -> dict[str, Any]:
    """JSON-ready."""
    return {
        "left": _term(fact.left),
        "relation": fact.relation.value,
        "right": None if fact.right is None else _term(fact.right),
        "origin": fact.origin.value,
        "place": fact.place,
    }


def from_data(data: Any) -> Fact:
    """The fact again. Raises InputError for data of another form."""
    try:
        right = None if data["right"] is None else _read(data["right"])
        return Fact(_read(data["left"]), Relation(data["relation"]), right, Origin(data["origin"]), data["place"])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"no fact: {data!r} ({error})", next_step="build again") from None


def _term(term: Term) -> Any:
    match term:
        case int():
            return term
        case Parameter(index, label):
            return {"parameter": index, "label": label}
        case Special(name):
            return {"special": name}
        case RegionInput(index):
            return {"input": index}
        case RegionValue(name):
            return {"value": name}
        case Bytes(start, count, size):
            return {"start": _term(start), "count": _term(count), "size": size}
        case Sum(parts, constant):
            return {"sum": [[factor, _term(part)] for factor, part in parts], "constant": constant}
        case _:
            assert_never(term)


def _read(data: Any) -> Any:
    match data:
        case bool():
            raise ValueError("a truth value is no term")
        case int():
            return data
        case {"parameter": int(index), "label": str(label)}:
            return Parameter(index, label)
        case {"special": str(name)}:
            return Special(name)
        case {"input": int(index)}:
            return RegionInput(index)
        case {"value": str(name)}:
            return RegionValue(name)
        case {"start": start, "count": count, "size": int(size)}:
            return Bytes(_read(start), _read(count), size)
        case {"sum": list(parts), "constant": int(constant)}:
            return Sum(tuple((int(factor), _read(part)) for factor, part in parts), constant)
        case _:
            raise ValueError("no term of this form is known")
