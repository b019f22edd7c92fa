"""Special registers (PTX ISA 9.0, chapter 10)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridcc.passes.execute.memory import Fault

_AXES = {"x": 0, "y": 1, "z": 2}
_LANE_MASKS = {
    "%lanemask_eq": lambda lane: np.uint32(1) << lane,
    "%lanemask_lt": lambda lane: (np.uint32(1) << lane) - np.uint32(1),
    "%lanemask_le": lambda lane: ((np.uint32(1) << lane) - np.uint32(1)) | (np.uint32(1) << lane),
    "%lanemask_gt": lambda lane: ~(((np.uint32(1) << lane) - np.uint32(1)) | (np.uint32(1) << lane)),
    "%lanemask_ge": lambda lane: ~((np.uint32(1) << lane) - np.uint32(1)),
}


def read(launch: Any, name: str, places: Any) -> tuple[Any, int]:
    """(value, bits) of a special register for the threads at ``places``. Raises Fault for those not modelled."""
    base, _, axis = name.partition(".")
    if axis in _AXES:
        return _vector(launch, base, _AXES[axis], places), 32
    thread = places % launch.padded
    if base in _LANE_MASKS:
        return _LANE_MASKS[base]((thread % 32).astype(np.uint32)), 32
    match base:
        case "%laneid":
            return (thread % 32).astype(np.uint32), 32
        case "%warpid":
            return (thread // 32).astype(np.uint32), 32
        case "%nwarpid":
            return np.uint32(launch.padded // 32), 32
        case "%clock" | "%clock_hi" | "%globaltimer_lo" | "%globaltimer_hi":
            launch.flag(f"not deterministic: {base}")
            return np.uint32(launch.steps[0] & 0xFFFFFFFF), 32
        case "%clock64" | "%globaltimer":
            launch.flag(f"not deterministic: {base}")
            return np.uint64(launch.steps[0]), 64
        case "%smid" | "%gridid":
            launch.flag(f"not deterministic: {base}")
            return np.uint32(0), 32
        case "%nsmid":
            launch.flag(f"not deterministic: {base}")
            return np.uint32(1), 32
        case "%dynamic_smem_size":
            return np.uint32(launch.layout.dynamic_shared), 32
        case "%total_smem_size":
            return np.uint32(launch.shared.size), 32
    raise Fault("UNSUPPORTED", f"the special register {name}", 0)


def _vector(launch: Any, base: str, axis: int, places: Any) -> Any:
    match base:
        case "%tid":
            thread = places % launch.padded
            x, y, _ = launch.block
            return ((thread, thread // x, thread // (x * y))[axis] % launch.block[axis]).astype(np.uint32)
        case "%ntid":
            return np.uint32(launch.block[axis])
        case "%ctaid":
            number = launch.first + places // launch.padded
            x, y, _ = launch.grid
            return ((number, number // x, number // (x * y))[axis] % launch.grid[axis]).astype(np.uint32)
        case "%nctaid":
            return np.uint32(launch.grid[axis])
        case "%cluster_ctaid":
            return np.uint32(0)
        case "%cluster_nctaid" | "%nclusterid" | "%clusterid":
            raise Fault("UNSUPPORTED", f"the special register {base}", 0)
    raise Fault("UNSUPPORTED", f"the special register {base}", 0)
