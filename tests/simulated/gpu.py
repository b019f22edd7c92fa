"""The driver calls that a race makes, over host memory, on a virtual clock.

A "cubin" is JSON: ``{"kernel": NAME, "us": TIME, ...}`` with NAME from ``KERNELS``. Time passes only here: host calls
cost HOST_US each, launches what their cubin says, changed by the noise that the environment variable NOISE describes::

    {"sigma": of each batch, "drift": relative over the run, "modes": slowdown of a second clock state,
     "switch": chance of a change of state per batch, "outliers": chance of a batch that takes 1.3 to 3 times as long,
     "instance": sigma of a factor that code draws whenever it is loaded, "seed": int, "throttled": chance}
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import time
from dataclasses import dataclass, field
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np

NOISE = "HYBRIDCC_SIMULATED_NOISE"
HOST_US = 2.0
GRAPH_US = 8.0
LOAD_US = 600.0
NODE_US = 1.0
"""Of a graph, when it is instantiated."""
KERNEL_GAP_US = 0.8


class Status(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NOT_INITIALIZED = 3
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701


OK = Status.CUDA_SUCCESS


class Noise:
    """Draws how much longer than it should a batch takes."""

    def __init__(self, given: dict[str, float]) -> None:
        self.given = given
        self.random = np.random.default_rng(int(given.get("seed", 0)) + os.getpid())
        self.slow = False
        self.batches = 0
        self.of_library: dict[int, float] = {}

    def factor(self, library: int) -> float:
        get = self.given.get
        if library not in self.of_library:
            self.of_library[library] = math.exp(self.random.normal(0, get("instance", 0.0)))
        self.batches += 1
        if self.random.random() < get("switch", 0.0):
            self.slow = not self.slow
        found = self.of_library[library] * math.exp(self.random.normal(0, get("sigma", 0.0)))
        found *= 1 + get("drift", 0.0) * self.batches / 1000
        found *= 1 + get("modes", 0.0) * self.slow
        if self.random.random() < get("outliers", 0.0):
            found *= self.random.uniform(1.3, 3)
        return found


@dataclass
class Library:
    number: int
    what: dict[str, Any]
    state: dict[str, Any] = field(default_factory=dict)
    """Module-scope variables."""


@dataclass
class Launched:
    library: Library
    grid: int
    block: int
    pointers: Any


class Kernel(int):
    """A CUkernel or CUfunction: the number of its library."""


class Simulated:
    """Stands in for the module ``cuda.bindings.driver``."""

    CUresult = Status
    CUfunction = Kernel
    CUstream = int
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)
    CUevent_flags = SimpleNamespace(CU_EVENT_DEFAULT=0)

    def __init__(self, memory_bytes: int = 1 << 32) -> None:
        self.noise = Noise(json.loads(os.environ.get(NOISE, "{}")))
        self.total = memory_bytes
        self.memory: dict[int, np.ndarray] = {}
        self.libraries: dict[int, Library] = {}
        self.events: dict[int, float] = {}
        self.graphs: dict[int, list[Launched]] = {}
        self.capturing: list[Launched] | None = None
        self.shared = 0
        self.host_us = 0.0
        self.gpu_us = 0.0
        self.numbers = 1
        self.broken = OK
        names = ("CUdevice_attribute", "CUfunction_attribute")
        for name in names:
            setattr(self, name, _Attributes())

    def _number(self) -> int:
        self.numbers += 1
        return self.numbers

    def _host(self, us: float = HOST_US) -> None:
        self.host_us += us

    # --- devices and contexts ---

    def cuInit(self, flags):
        return (OK,)

    def cuDeviceGetCount(self):
        return OK, 1

    def cuDeviceGet(self, ordinal):
        return OK, ordinal

    def cuDeviceGetName(self, size, handle):
        return OK, b"Simulated GPU\0"

    def cuDriverGetVersion(self):
        return OK, 13000

    def cuDeviceTotalMem(self, handle):
        return OK, self.total

    def cuDeviceGetUuid(self, handle):
        return OK, SimpleNamespace(bytes=b"\xab" * 16)

    def cuDeviceGetAttribute(self, which, handle):
        return OK, {
            "COMPUTE_CAPABILITY_MAJOR": 9, "COMPUTE_CAPABILITY_MINOR": 0, "MULTIPROCESSOR_COUNT": 132,
            "L2_CACHE_SIZE": 1 << 20, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 227 << 10, "CLOCK_RATE": 1980000,
            "MEMORY_CLOCK_RATE": 3201000, "GLOBAL_MEMORY_BUS_WIDTH": 6016,
            "MPS_ENABLED": int(os.environ.get("HYBRIDCC_SIMULATED_MPS", "0")),
        }[which.removeprefix("CU_DEVICE_ATTRIBUTE_")]  # fmt: skip

    def cuCtxGetCurrent(self):
        return OK, 1

    def cuCtxGetDevice(self):
        return OK, 0

    # --- memory ---

    def cuMemGetInfo(self):
        used = sum(a.nbytes for a in self.memory.values())
        return OK, self.total - used, self.total

    def cuMemAlloc(self, size):
        if size + sum(a.nbytes for a in self.memory.values()) > self.total:
            return Status.CUDA_ERROR_OUT_OF_MEMORY, 0
        room = np.zeros(size + 512, np.uint8)
        address = -(-room.ctypes.data // 256) * 256
        self.memory[address] = room
        return OK, address

    def cuMemFree(self, address):
        del self.memory[address]
        return (OK,)

    def cuMemcpyHtoD(self, target, source, size):
        ctypes.memmove(target, source, size)
        return (self.broken,)

    cuMemcpyDtoH = cuMemcpyHtoD

    def cuMemcpyDtoDAsync(self, target, source, size, stream):
        ctypes.memmove(target, source, size)
        return (self.broken,)

    def cuMemsetD8(self, target, value, size):
        ctypes.memset(target, value, size)
        return (self.broken,)

    def cuMemsetD8Async(self, target, value, size, stream):
        return self.cuMemsetD8(target, value, size)

    # --- code ---

    def cuLibraryLoadData(self, code, *_):
        number = self._number()
        self._host(LOAD_US)
        text = code.rstrip(b"\0").decode()
        if text.startswith(".version"):  # of the race itself: compare or scrub
            what = {"kernel": "compare" if "compare(" in text else "scrub", "us": 3.0}
        else:
            what = json.loads(text)
        self.libraries[number] = Library(number, what, {"counts": np.zeros(2, np.uint64)})
        return OK, number

    def cuLibraryGetKernel(self, library, entry):
        return OK, Kernel(library)

    def cuKernelGetFunction(self, kernel):
        return OK, kernel

    def cuLibraryGetGlobal(self, library, name):
        counts = self.libraries[library].state["counts"]
        return OK, counts.ctypes.data, counts.nbytes

    def cuLibraryUnload(self, library):
        del self.libraries[library]
        return (OK,)

    def cuKernelSetAttribute(self, *_):
        return (OK,)

    def cuLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, pointers, extra):
        library = self.libraries[int(function)]
        self._host()
        if bx * by * bz > library.what.get("most_threads", 1024):
            return (Status.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,)
        launched = Launched(library, gx * gy * gz, bx * by * bz, pointers)
        if self.capturing is not None:
            self.capturing.append(launched)
        else:
            self._compute(launched)
            self._pass(launched, 1)
        return (OK,)

    def _pass(self, launched: Launched, count: int) -> None:
        self.gpu_us = max(self.gpu_us, self.host_us)
        us = (launched.library.what["us"] + KERNEL_GAP_US) * count
        self.gpu_us += us * self.noise.factor(launched.library.number)

    def _compute(self, launched: Launched) -> None:
        KERNELS[launched.library.what["kernel"]](self, launched)

    # --- streams, events, graphs ---

    def cuStreamCreate(self, flags):
        return OK, self._number()

    def cuStreamDestroy(self, stream):
        return (OK,)

    def cuStreamSynchronize(self, stream):
        self.host_us = max(self.host_us, self.gpu_us) + HOST_US
        return (self.broken,)

    def cuStreamBeginCapture(self, stream, mode):
        self.capturing = []
        return (OK,)

    def cuStreamEndCapture(self, stream):
        assert self.capturing is not None
        number = self._number()
        self.graphs[number] = self.capturing
        self.capturing = None
        return OK, number

    def cuGraphInstantiate(self, graph, flags):
        number = self._number()
        self._host(NODE_US * len(self.graphs[graph]))
        self.graphs[number] = self.graphs[graph]
        return OK, number

    def cuGraphDestroy(self, graph):
        del self.graphs[graph]
        return (OK,)

    cuGraphExecDestroy = cuGraphDestroy

    def cuGraphLaunch(self, graph, stream):
        self._host(GRAPH_US)
        launches = self.graphs[graph]
        for launched in launches[:32]:  # the rest would leave the same
            self._compute(launched)
        self._pass(launches[0], len(launches))
        return (self.broken,)

    def cuEventCreate(self, flags):
        number = self._number()
        self.events[number] = 0.0
        return OK, number

    def cuEventDestroy(self, event):
        del self.events[event]
        return (OK,)

    def cuEventRecord(self, event, stream):
        self._host()
        self.events[event] = max(self.gpu_us, self.host_us)
        return (OK,)

    def cuEventSynchronize(self, event):
        self.host_us = max(self.host_us, self.events[event]) + HOST_US
        return (self.broken,)

    def cuEventElapsedTime(self, start, end):
        return OK, (self.events[end] - self.events[start]) / 1000


class _Attributes:
    """Every name is its own value."""

    def __getattr__(self, name: str) -> str:
        return name


# --- kernels: y[i] = x[i] * 2, well and badly ---


def _parameters(launched: Launched, *types: Any) -> list[int]:
    addresses = ctypes.cast(launched.pointers, ctypes.POINTER(ctypes.c_void_p))
    return [ctypes.cast(addresses[i], ctypes.POINTER(t)).contents.value for i, t in enumerate(types)]


def _array(address: int, size: int) -> np.ndarray:
    return _words(address, size).view(np.float32)


def _words(address: int, size: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_uint32 * size).from_address(address))


def compare(gpu: Simulated, launched: Launched) -> None:
    left, right, words, found = _parameters(launched, *[ctypes.c_uint64] * 4)
    differs = np.flatnonzero(_words(left, words) != _words(right, words))
    if differs.size:
        ctypes.c_uint64.from_address(found).value = int(differs[0])
        ctypes.c_uint64.from_address(found + 8).value = differs.size


def scrub(gpu: Simulated, launched: Launched) -> None:
    _, gpu.shared = _parameters(launched, ctypes.c_uint32, ctypes.c_uint32)


def double(gpu: Simulated, launched: Launched) -> None:
    x, y = _parameters(launched, ctypes.c_uint64, ctypes.c_uint64)
    size = min(launched.library.what.get("size", 256), launched.grid * launched.block)
    what, state = launched.library.what, launched.library.state
    state["calls"] = state.get("calls", 0) + 1
    result = _array(x, size) * np.float32(2)
    match what.get("does", ""):
        case "skips repeated pointers":
            if state.get("pointer") == x:
                return
            state["pointer"] = x
        case "is right for ten calls" if state["calls"] > 10:
            result[0] += 1
        case "reads uninitialised shared memory":
            result[3] += np.float32(gpu.shared)
        case "writes out of bounds":
            _array(y + 4 * size, 1)[0] = 1
        case "faults":
            gpu.broken = Status.CUDA_ERROR_ILLEGAL_ADDRESS
            return
        case "faults elsewhere" if launched.grid != what["grid"]:
            gpu.broken = Status.CUDA_ERROR_ILLEGAL_ADDRESS
            return
        case "leaves its buffers elsewhere" if launched.grid != what["grid"]:
            _words(y, size + 1024)[:] = 7  # up to the end of the red zone, as whoever writes too much does
        case "is wrong elsewhere" if launched.grid != what["grid"]:
            result[0] += 1
        case "never ends":
            time.sleep(3600)
        case "does nothing":
            return
        case "is random":
            result[0] += np.random.default_rng().random()
        case "counts":
            state["counts"][:] = what["counts"]
    _array(y, size)[:] = result


KERNELS = {"compare": compare, "scrub": scrub, "double": double}


class VirtualTime:
    """Stands in for the module ``time`` in the racing process."""

    def __init__(self, gpu: Simulated) -> None:
        self._gpu = gpu

    def perf_counter(self) -> float:
        return self._gpu.host_us / 1e6

    def perf_counter_ns(self) -> int:
        return round(self._gpu.host_us * 1e3)
