"""The two SMT solvers: bitwuzla, which decides, and z3, which cross-checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybridcc.errors import MissingExtra
from hybridcc.passes.verify.proof.solver import Answer, Backend

_BITWUZLA_KINDS = {
    "=": "EQUAL",
    "not": "NOT",
    "and": "AND",
    "ite": "ITE",
    "bvadd": "BV_ADD",
    "bvmul": "BV_MUL",
    "bvneg": "BV_NEG",
    "bvand": "BV_AND",
    "bvor": "BV_OR",
    "bvshl": "BV_SHL",
    "bvlshr": "BV_SHR",
    "bvashr": "BV_ASHR",
    "bvudiv": "BV_UDIV",
    "bvurem": "BV_UREM",
    "bvsdiv": "BV_SDIV",
    "bvsrem": "BV_SREM",
    "bvult": "BV_ULT",
    "bvslt": "BV_SLT",
}


class Bitwuzla:
    """bitwuzla 0.8 or later."""

    name = "bitwuzla"

    def __init__(self) -> None:
        try:
            import bitwuzla
        except ImportError as error:
            raise _missing("bitwuzla") from error
        from importlib.metadata import version

        self._library = bitwuzla
        self.version = version("bitwuzla")
        self._manager = bitwuzla.TermManager()
        self._kinds = {name: getattr(bitwuzla.Kind, kind) for name, kind in _BITWUZLA_KINDS.items()}
        self._free: dict[tuple[str, int], Any] = {}

    def number(self, value: int, width: int) -> Any:
        return self._manager.mk_bv_value(self._manager.mk_bv_sort(width), value)

    def free(self, name: str, width: int) -> Any:
        found = self._free.get((name, width))
        if found is None:
            found = self._free[name, width] = self._manager.mk_const(self._manager.mk_bv_sort(width), name)
        return found

    def free_truth(self, name: str) -> Any:
        found = self._free.get((name, 0))
        if found is None:
            found = self._free[name, 0] = self._manager.mk_const(self._manager.mk_bool_sort(), name)
        return found

    def operation(self, name: str, *arguments: Any) -> Any:
        return self._manager.mk_term(self._kinds[name], list(arguments))

    def extend(self, term: Any, by: int, *, sign: bool) -> Any:
        if by == 0:
            return term
        kind = self._library.Kind.BV_SIGN_EXTEND if sign else self._library.Kind.BV_ZERO_EXTEND
        return self._manager.mk_term(kind, [term], [by])

    def extract(self, term: Any, high: int, low: int) -> Any:
        return self._manager.mk_term(self._library.Kind.BV_EXTRACT, [term], [high, low])

    def check(self, assertions: Sequence[Any], milliseconds: int) -> tuple[Answer, _BitwuzlaModel | None]:
        options = self._library.Options()
        options.set(self._library.Option.PRODUCE_MODELS, True)
        options.set(self._library.Option.TIME_LIMIT_PER, milliseconds)
        instance = self._library.Bitwuzla(self._manager, options)
        for assertion in assertions:
            instance.assert_formula(assertion)
        result = instance.check_sat()
        if result == self._library.Result.UNSAT:
            return "unsat", None
        if result == self._library.Result.SAT:
            return "sat", _BitwuzlaModel(instance)
        return "unknown", None


class _BitwuzlaModel:
    def __init__(self, instance: Any) -> None:
        self._instance = instance

    def truth(self, term: Any) -> bool:
        return bool(self._instance.get_value(term).value())

    def number(self, term: Any) -> int:
        return int(self._instance.get_value(term).value(10))


class Z3:
    """z3 4.13 or later."""

    name = "z3"

    def __init__(self) -> None:
        try:
            import z3
        except ImportError as error:
            raise _missing("z3") from error
        self._library = z3
        self.version = z3.get_version_string()
        self._context = z3.Context()
        self._operations = {
            "=": lambda a, b: a == b,
            "not": z3.Not,
            "and": z3.And,
            "ite": z3.If,
            "bvadd": lambda a, b: a + b,
            "bvmul": lambda a, b: a * b,
            "bvneg": lambda a: -a,
            "bvand": lambda a, b: a & b,
            "bvor": lambda a, b: a | b,
            "bvshl": lambda a, b: a << b,
            "bvlshr": z3.LShR,
            "bvashr": lambda a, b: a >> b,
            "bvudiv": z3.UDiv,
            "bvurem": z3.URem,
            "bvsdiv": lambda a, b: a / b,
            "bvsrem": z3.SRem,
            "bvult": z3.ULT,
            "bvslt": lambda a, b: a < b,
        }

    def number(self, value: int, width: int) -> Any:
        return self._library.BitVecVal(value, width, self._context)

    def free(self, name: str, width: int) -> Any:
        return self._library.BitVec(name, width, self._context)

    def free_truth(self, name: str) -> Any:
        return self._library.Bool(name, self._context)

    def operation(self, name: str, *arguments: Any) -> Any:
        return self._operations[name](*arguments)

    def extend(self, term: Any, by: int, *, sign: bool) -> Any:
        if by == 0:
            return term
        return self._library.SignExt(by, term) if sign else self._library.ZeroExt(by, term)

    def extract(self, term: Any, high: int, low: int) -> Any:
        return self._library.Extract(high, low, term)

    def check(self, assertions: Sequence[Any], milliseconds: int) -> tuple[Answer, _Z3Model | None]:
        solver = self._library.SolverFor("QF_BV", self._context)
        solver.set("timeout", milliseconds)
        solver.add(*assertions)
        result = solver.check()
        if result == self._library.unsat:
            return "unsat", None
        if result == self._library.sat:
            return "sat", _Z3Model(self._library, solver.model())
        return "unknown", None


class _Z3Model:
    def __init__(self, library: Any, model: Any) -> None:
        self._library, self._model = library, model

    def truth(self, term: Any) -> bool:
        return bool(self._library.is_true(self._model.eval(term, model_completion=True)))

    def number(self, term: Any) -> int:
        return int(self._model.eval(term, model_completion=True).as_long())


def backend(name: str) -> Backend:
    """``bitwuzla`` or ``z3``. Raises MissingExtra."""
    return Bitwuzla() if name == "bitwuzla" else Z3()


def _missing(library: str) -> MissingExtra:
    return MissingExtra(f"{library} is not installed", next_step=f"pip install {library}")
