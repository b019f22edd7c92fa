"""A kernel as every frontend hands it over: PTX, entry, parameters by meaning, facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from hybridcc.passes.facts import Fact

Layout: TypeAlias = Literal["C", "F", "A"]


@dataclass(frozen=True, slots=True)
class ArrayType:
    """``dtype`` is a NumPy dtype name ("float32"); layout A promises nothing about strides."""

    dtype: str
    ndim: int
    layout: Layout = "C"
    readonly: bool = False
    aligned: bool = True


@dataclass(frozen=True, slots=True)
class ScalarType:
    """``dtype`` is a NumPy dtype name."""

    dtype: str


@dataclass(frozen=True, slots=True)
class Field:
    """One PTX parameter that a source-level argument flattens to.

    ``role`` is one of: data, meminfo, parent, nitems, itemsize, offset, shape, stride (in bytes), element_stride
    (in elements), value. ``axis`` counts dimensions for shape and strides; ``ptx_type`` is as declared (".u64").
    meminfo and parent are host pointers that no kernel reads; a launch passes 0.
    """

    role: str
    ptx_type: str
    axis: int = 0


@dataclass(frozen=True, slots=True)
class Argument:
    """One source-level argument and the PTX parameters it becomes, in order."""

    name: str
    type: ArrayType | ScalarType
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class LaunchBounds:
    """``.maxntid`` (threads in a block), ``.minnctapersm``; None where not given."""

    max_threads: int | None = None
    min_blocks: int | None = None


@dataclass(frozen=True, slots=True)
class Kernel:
    """The untouched compilation of one kernel for one architecture.

    ``name`` is what the user calls it; ``entry`` is the PTX entry; ``arguments`` is empty when a frontend
    cannot know the source-level types (a bare .ptx file: then ``raw_parameters`` only). ``frontend`` names the
    producer and its version ("numba-cuda 0.30.4"); ``arch`` is "sm_90".
    """

    name: str
    entry: str
    ptx: str = field(repr=False)
    arch: str
    frontend: str
    arguments: tuple[Argument, ...] = ()
    facts: tuple[Fact, ...] = ()
    launch_bounds: LaunchBounds = LaunchBounds()
    source_file: str = ""
    source_line: int = 0
