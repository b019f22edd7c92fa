"""What two kernels are run on: a given launch with other values in it, or launches made from a PTX kernel's types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from hybridcc.contest import Side
from hybridcc.errors import InputError
from hybridcc.passes.kernel import Argument, ArrayType, Field, Kernel, ScalarType
from hybridcc.passes.verify.launch import Launch, buffers

VARIED = ("random", "signed", "nan", "infinity", "subnormal", "large", "zero")
"""Families of floating-point values (passes/verify/values.py) that the arrays of a given launch are filled with."""


def arguments_of(values: Sequence[object]) -> tuple[Argument, ...]:
    """One argument per PTX parameter, in the values' own types."""
    return tuple(_argument(f"p{number}", value) for number, value in enumerate(values))


def _argument(name: str, value: object) -> Argument:
    if isinstance(value, np.ndarray):
        return Argument(name, ArrayType(value.dtype.name, value.ndim, "A"), (Field("data", ".u64"),))
    dtype = np.asarray(value).dtype
    kind = {"f": "f", "i": "s", "u": "u", "b": "u"}[dtype.kind]
    ptx_type = ".u16" if dtype == np.float16 else f".{kind}{8 * dtype.itemsize}"
    return Argument(name, ScalarType(dtype.name), (Field("value", ptx_type),))


def check_parameters(arguments: Sequence[Argument], sides: Sequence[Side]) -> None:
    """Raises InputError where the values are not as many and as large as a kernel's parameters."""
    from hybridcc.passes.arguments import PTX_NUMPY

    given = tuple(np.dtype(PTX_NUMPY[f.ptx_type]).itemsize for argument in arguments for f in argument.fields)
    for one in sides:
        if one.entry.parameters and one.entry.parameters != given:
            raise InputError(
                f"{one.entry.name} takes parameters of {list(one.entry.parameters)} bytes, not {list(given)}",
                where=one.path,
                next_step="give one --arg per parameter, in order: f32[1024]=random, s64:7, @x.npy",
            )


def generated(kernel: Kernel, seed: int, count: int = 8) -> tuple[tuple[Argument, ...], tuple[Launch, ...]]:
    """Launches made from a bare PTX kernel's types that it accepts on the executor: families of values, trip counts,
    aliases and views. The largest of random values comes first. Raises InputError where none is found."""
    from itertools import islice

    from hybridcc.passes.verify.bare import with_arguments
    from hybridcc.passes.verify.once import default_execute
    from hybridcc.passes.verify.source import launches_for

    typed = with_arguments(kernel)
    made = launches_for(typed, (), seed=seed, execute=default_execute())
    launches = tuple(islice(made.launches, count))
    if not launches:
        raise InputError(
            f"no launch of {kernel.entry} can be made from its types",
            where=kernel.source_file,
            next_step="give --grid, --block and one --arg per parameter",
        )
    plain = [launch for launch in launches if launch.family == "random"] or list(launches)
    largest = max(plain, key=lambda launch: sum(root.nbytes for root in buffers(launch)))
    return typed.arguments, (largest, *(launch for launch in launches if launch is not largest))


def varied(launch: Launch, seed: int) -> Iterator[Launch]:
    """The launch with other values in its floating-point arrays, family by family. Whole numbers stay: they may be
    indices and sizes."""
    from hybridcc.passes.verify.launch import copy
    from hybridcc.passes.verify.values import draw

    floating = [v for v in launch.values if isinstance(v, np.ndarray) and v.dtype.kind in "fc" and v.size]
    for number, family in enumerate(VARIED if floating else ()):
        fresh = copy(launch)
        rng = np.random.default_rng([seed, number])
        for value in fresh.values:
            if isinstance(value, np.ndarray) and value.dtype.kind in "fc":
                value[...] = draw(family, value.dtype, value.size, rng).reshape(value.shape)
        yield replace(fresh, family=family)
