"""Numba's own dispatcher classes, for ``runtime/dispatcher.py`` to extend; imported on NVIDIA's wheels.

Whatever is not overridden there is Numba's by construction. In Numba's simulator (``NUMBA_ENABLE_CUDASIM=1``) these
classes do not exist, and ``hybridcc.jit`` gives the simulator's kernels.
"""

from __future__ import annotations

from typing import Any

from hybridcc.runtime import toolchain

toolchain.prepare_numba()

from numba.cuda import jit  # noqa: E402
from numba.cuda.core import config  # noqa: E402  # pyright: ignore[reportMissingImports]

numba_jit: Any = jit
"""Numba's, also where somebody has put ``hybridcc.jit`` in its place."""

SIMULATOR = bool(config.ENABLE_CUDASIM)

CUDADispatcher: Any = object
LaunchConfiguration: Any = object
ForAll: Any = object
if not SIMULATOR:
    from numba.cuda import dispatcher

    CUDADispatcher = dispatcher.CUDADispatcher
    LaunchConfiguration = dispatcher._LaunchConfiguration
    ForAll = dispatcher.ForAll


def array_interface_sync() -> bool:
    """Whether a launch waits for the stream that an array's ``__cuda_array_interface__`` names
    (``NUMBA_CUDA_ARRAY_INTERFACE_SYNC``, on unless set to 0)."""
    return bool(config.CUDA_ARRAY_INTERFACE_SYNC)


def normalize_signature(signature: Any) -> tuple[Any, ...]:
    """The argument types of a declared signature, checked as ``numba.cuda.jit`` does. Raises TypeError."""
    from numba.cuda import types
    from numba.cuda.core import sigutils  # pyright: ignore[reportMissingImports]

    arguments, result = sigutils.normalize_signature(signature)
    if result and result != types.void:
        raise TypeError("CUDA kernel must have void return type.")
    return arguments
