"""What a result was measured on: GPU, driver, clocks, versions. Goes into every JSON file."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    *("numpy", "numba", "numba-cuda", "cuda-bindings", "cuda-core", "cupy-cuda13x", "torch", "nvidia-nvjitlink"),
    *("nvidia-nvvm", "nvidia-cuda-nvrtc", "scipy"),
)


def use_checkout() -> None:
    """Let ``python benchmarks/X.py`` run from a checkout that is not installed."""
    for folder in (ROOT, ROOT / "examples"):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))


def facts() -> dict[str, Any]:
    """JSON-ready; ``gpu`` is None where there is none."""
    from dataclasses import asdict

    import hybridcc
    from hybridcc.runtime import device
    from hybridcc.runtime.clocks import open_clocks

    found = device.available()
    clocks = open_clocks(found.uuid) if found is not None else None
    reading = clocks.read() if clocks is not None else None
    return {
        "hybridcc": hybridcc.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "gpu": None if found is None else asdict(found),
        "no_gpu": device.why_none(),
        "driver_version": clocks.driver_version() if clocks is not None else "",
        "clocks": None if reading is None else asdict(reading),
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
