"""One kernel of the suite: a Numba file, its CUDA C++ twin beside it, launches, reference and physical bound.

A file of ``kernels/`` is what ``hybridcc build`` takes, and has besides the kernel of its own name:

    SIZES            {"tiny": …, "small": …, "large": …}: what ``launch`` is called with; tiny is for the executor
    TOLERANCE        of outputs against the reference, relative to their largest element; 0 is bit for bit
    launch(*size)    (grid, block, arguments): host arrays, NumPy scalars
    cuda_arguments   from those arguments to the twin's, in its order
    reference        {argument's name: what it holds afterwards}, by NumPy
    work             {"bytes", "fp32", "fp64", "int32"}: what every right kernel has to move and compute at least
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hybridcc.errors import InputError
from hybridcc.passes.kernel import Argument
from hybridcc.passes.verify.launch import Launch, as_block, as_shape

FOLDER = Path(__file__).with_name("kernels")
MEASURED = ("large", "small")
"""Sizes that are raced, the one that decides first."""

FIELDS: Mapping[str, tuple[str, ...]] = {
    "finance": ("binomial", "black_scholes"),
    "image": ("box_blur", "histogram", "rgb_to_gray", "sobel"),
    "stencils": ("heat3d", "jacobi2d"),
    "n-body": ("nbody",),
    "sparse": ("csr_spmv", "ell_spmv"),
    "statistics": ("colsum", "covariance", "row_variance"),
    "strings and integers": ("byte_count", "collatz", "fnv_hash", "levenshtein"),
    "reductions and scans": ("block_scan", "block_sum", "softmax_rows"),
    "linear algebra": ("gemv", "matmul_naive", "matmul_tiled", "saxpy", "transpose"),
    "Monte Carlo": ("monte_carlo_pi",),
    "graph": ("bfs_step", "pagerank_step"),
    "signal": ("conv1d", "dft_rows"),
    "fractals": ("mandelbrot",),
}

BEYOND_LOOPS = ("block_scan", "block_sum", "histogram", "matmul_tiled", "softmax_rows", "transpose")
"""Bound by barriers, shared memory or atomics: taking the range machine and the wraparound out of their loops cannot be
what makes them faster."""


@dataclass(frozen=True)
class Case:
    """``kernel`` is the file's jit object; arguments come from ``launch`` anew each time."""

    name: str
    field: str
    kernel: Any
    sizes: Mapping[str, tuple[Any, ...]]
    tolerance: float
    make: Callable[..., tuple[Any, Any, tuple[Any, ...]]]
    cuda_arguments: Callable[..., tuple[Any, ...]]
    reference: Callable[..., Mapping[str, np.ndarray]]
    work: Callable[..., Mapping[str, int]]

    def launch(self, size: str) -> Launch:
        grid, block, values = self.make(*self.sizes[size])
        return Launch(as_shape(grid), as_block(block), tuple(values))

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """As they become PTX parameters, where Numba compiles the kernel."""
        from hybridcc.frontends import numba_types

        return tuple(numba_types.arguments(self.parameters, self.kernel.signatures[0]))

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.kernel.py_func).parameters)

    @property
    def source(self) -> Path:
        return FOLDER / f"{self.name}.py"

    @property
    def twin(self) -> str:
        """CUDA C++, its entry called like the kernel."""
        return (FOLDER / f"{self.name}.cu").read_text()

    @cached_property
    def has_loop(self) -> bool:
        """Whether the kernel's own text has one."""
        tree = ast.parse(textwrap.dedent(inspect.getsource(self.kernel.py_func)))
        return any(isinstance(node, ast.For | ast.While) for node in ast.walk(tree))


def names() -> tuple[str, ...]:
    """Of all kernels, in alphabetical order."""
    return tuple(sorted(name for members in FIELDS.values() for name in members))


def load(name: str) -> Case:
    """Raises InputError for a name that the suite does not have."""
    from hybridcc.frontends import discover

    field = next((field for field, members in FIELDS.items() if name in members), None)
    if field is None:
        raise InputError(f"the suite has no kernel {name}", next_step=f"give some of {', '.join(names())}")
    module = discover.load(FOLDER / f"{name}.py")
    return Case(
        name,
        field,
        getattr(module, name),
        module.SIZES,
        module.TOLERANCE,
        module.launch,
        module.cuda_arguments,
        module.reference,
        module.work,
    )


def error_of(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference, relative to the largest element wanted."""
    difference = np.abs(found.astype("f8") - np.asarray(wanted, "f8"))
    largest = float(np.max(np.abs(np.asarray(wanted, "f8")), initial=0.0))
    return float(np.max(difference, initial=0.0)) / (largest or 1.0)
