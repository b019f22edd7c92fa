"""One launch of one cubin from a race job's folder, for a profiler to watch.

argv: the folder, and how many launches go before the one to watch.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np

from hybridcc.runtime import race_memory
from hybridcc.runtime.driver import bindings, call, use_primary_context
from hybridcc.runtime.launch import LoadedKernel, geometry
from hybridcc.runtime.race_job import read


def main(folder: Path, before: int) -> None:
    job = read(folder)
    use_primary_context()
    ((name, entry),) = job.contenders
    loaded = LoadedKernel((folder / f"{name}.cubin").read_bytes(), entry)
    if job.shared_bytes > 48 << 10:
        loaded.set_attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES", job.shared_bytes)
    buffers = race_memory.buffer_set(job.sizes, job.alignments)
    data = job.parameters.filled(buffers.addresses)
    memory = ctypes.create_string_buffer(data, len(data))
    base = ctypes.addressof(memory)
    pointers = (ctypes.c_void_p * len(job.parameters.offsets))(*(base + o for o in job.parameters.offsets))
    for _ in range(before + 1):
        for index, address in enumerate(buffers.addresses):
            race_memory.upload(address, np.fromfile(folder / f"buffer{index}.bin", np.uint8))
        where = geometry(job.grid, job.block, job.shared_bytes)
        call(bindings().cuLaunchKernel, loaded.function, *where, ctypes.addressof(pointers), 0)
        call(bindings().cuCtxSynchronize)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
