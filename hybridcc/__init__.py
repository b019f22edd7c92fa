"""hybridcc: a language model proposes faster PTX, checks decide, the fastest verified cubin runs.

The names below are loaded at first use, so that ``import hybridcc`` costs nothing:

``jit``      drop-in for ``numba.cuda.jit`` (runtime/dispatcher.py)
``build``    kernels to a folder of checked cubins (building.py)
``load``     kernels from what a build left, with no compiler and no Numba (loading.py)
``execute``  run PTX on the CPU with NumPy arrays as memory (passes/execute)
``test``     compare two PTX texts bit for bit on generated inputs (passes/verify/testing.py)
``verify``   prove two PTX texts equal for every input, or find an input that tells them apart (verifying.py)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hybridcc.building import build as build
    from hybridcc.loading import load as load
    from hybridcc.passes.execute import execute as execute
    from hybridcc.passes.verify.testing import test as test
    from hybridcc.runtime.dispatcher import jit as jit
    from hybridcc.verifying import verify as verify

__version__ = "0.1.0"

_HOMES = {
    "jit": "hybridcc.runtime.dispatcher",
    "build": "hybridcc.building",
    "load": "hybridcc.loading",
    "execute": "hybridcc.passes.execute",
    "test": "hybridcc.passes.verify.testing",
    "verify": "hybridcc.verifying",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'hybridcc' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
