"""The CUDA driver through cuda.bindings: loaded at first use, every failure a DeviceError.

A context is never made here: the primary context of a device is shared with Numba, CuPy and PyTorch.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

from hybridcc.errors import DeviceError, ForkedProcess, NoDevice

NEXT_WITHOUT_DEVICE = (
    "run it on a machine with an NVIDIA GPU and driver, build cubins here with `hybridcc build`, "
    "or set HYBRIDCC=execute to run kernels on the CPU with NumPy arrays"
)


_forked = False
"""Whether this process was forked from one that had initialised CUDA through ``bindings``."""


def _after_fork() -> None:
    global _forked
    if bindings.cache_info().currsize:
        _forked = True
        bindings.cache_clear()


os.register_at_fork(after_in_child=_after_fork)


def is_forked() -> bool:
    return _forked


def forked() -> ForkedProcess:
    return ForkedProcess(
        "this process was forked after CUDA was initialised, and CUDA does not survive a fork",
        next_step="start it with multiprocessing's 'spawn' or 'forkserver', or fork before the first use of a GPU",
    )


@cache
def bindings() -> ModuleType:
    """``cuda.bindings.driver``, initialised. Raises NoDevice where there is no driver or no GPU; a ForkedProcess in a
    child of a process that had used CUDA, by whatever library."""
    from cuda.bindings import driver

    if _forked:
        raise forked()
    try:
        (status,) = driver.cuInit(0)
    except RuntimeError as error:  # the driver's library is not there: DynamicLibNotFoundError is one
        what = "no NVIDIA driver is installed (libcuda.so.1 is not found)"
        raise NoDevice(what, next_step=NEXT_WITHOUT_DEVICE) from error
    if status == driver.CUresult.CUDA_ERROR_NOT_INITIALIZED:  # what cuInit gives in such a child, and nowhere else
        raise forked()
    if status != driver.CUresult.CUDA_SUCCESS:
        raise NoDevice(f"no GPU can be used: cuInit gives {status.name}", next_step=NEXT_WITHOUT_DEVICE)
    return driver


def call(function: Callable[..., tuple[Any, ...]], *arguments: Any) -> Any:
    """The function's result (None, one value or a tuple). Raises DeviceError with the driver's own name for it."""
    status, *results = function(*arguments)
    if int(status) != 0:
        raise DeviceError(f"{function.__name__} gives {status.name}", next_step="see the CUDA driver API on this error")
    match results:
        case []:
            return None
        case [result]:
            return result
        case _:
            return tuple(results)


def use_primary_context(ordinal: int = 0) -> None:
    """Make the device's primary context current in this thread, unless another context is."""
    driver = bindings()
    if int(call(driver.cuCtxGetCurrent)) == 0:
        device = call(driver.cuDeviceGet, ordinal)
        call(driver.cuCtxSetCurrent, call(driver.cuDevicePrimaryCtxRetain, device))


def make_current(ordinal: int) -> None:
    """Make the device's primary context this thread's, whichever it had."""
    driver = bindings()
    device = call(driver.cuDeviceGet, ordinal)
    call(driver.cuCtxSetCurrent, call(driver.cuDevicePrimaryCtxRetain, device))


def current_ordinal() -> int:
    """The device of this thread's context; 0 where it has none yet."""
    driver = bindings()
    if int(call(driver.cuCtxGetCurrent)) == 0:
        return 0
    return int(call(driver.cuCtxGetDevice))


def is_capturing(stream: int) -> bool:
    """Whether a launch on that stream would go into a CUDA graph, or a capture elsewhere forbids to wait."""
    driver = bindings()
    status, *captured = driver.cuStreamIsCapturing(driver.CUstream(stream))
    if status == driver.CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:  # asked of the legacy stream meanwhile
        return True
    return int(status) == 0 and captured[0] != driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE


def wait_for(producer: int, consumer: int) -> None:
    """What is queued on ``consumer`` from now on runs after what ``producer`` holds already. Raises DeviceError."""
    driver = bindings()
    event = call(driver.cuEventCreate, int(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING))
    try:
        call(driver.cuEventRecord, event, producer)
        call(driver.cuStreamWaitEvent, consumer, event, 0)
    finally:
        call(driver.cuEventDestroy, event)  # it is gone once the wait is over


def stream_handle(stream: Any) -> int:
    """A stream as the driver's integer: 0 or None, an integer, a Numba, CuPy or PyTorch stream, or anything with
    ``__cuda_stream__``. Raises DeviceError for anything else."""
    if stream is None:
        return 0
    if isinstance(stream, int):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        pair: Any = protocol() if callable(protocol) else protocol
        return int(pair[1])
    for name in ("handle", "ptr", "cuda_stream"):  # Numba and cuda.core; CuPy; PyTorch
        value = getattr(stream, name, None)
        if value is not None:
            return int(getattr(value, "value", value) or 0)
    raise DeviceError(
        f"{type(stream).__name__} is no CUDA stream",
        next_step="pass a stream of Numba, CuPy, PyTorch or cuda.core, or its integer handle",
    )
