"""A selected cubin in place: loaded once, launched with a buffer that is filled and never allocated anew."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from hybridcc.errors import DeviceError
from hybridcc.passes.kernel import Argument
from hybridcc.passes.verify.launch import as_shape
from hybridcc.runtime.driver import bindings, call, use_primary_context
from hybridcc.runtime.parameters import ParameterBuffer, format_of, reader

Geometry: TypeAlias = tuple[int, int, int, int, int, int, int, Any]
"""Grid, block, bytes of dynamic shared memory, stream: cuLaunchKernel's arguments in its order."""


def geometry(grid: Any, block: Any, shared_bytes: int = 0, stream: int = 0) -> Geometry:
    """``stream`` is the driver's handle (driver.stream_handle)."""
    queue = bindings().CUstream(stream)
    gx, gy, gz = as_shape(grid)
    bx, by, bz = as_shape(block)
    return gx, gy, gz, bx, by, bz, shared_bytes, queue


class LoadedKernel:
    """One entry of a cubin, for every context of its process: the driver puts it into each at the first launch."""

    __slots__ = ("_library", "entry", "function", "kernel")

    def __init__(self, cubin: bytes, entry: str) -> None:
        """Raises DeviceError when the driver refuses the bytes, for instance those of another architecture."""
        driver = bindings()
        use_primary_context()
        self._library = call(driver.cuLibraryLoadData, cubin, None, None, 0, None, None, 0)
        self.kernel = call(driver.cuLibraryGetKernel, self._library, entry.encode())
        self.function = driver.CUfunction(int(self.kernel))  # cuLaunchKernel takes a CUkernel in its place
        self.entry = entry

    def attribute(self, name: str, ordinal: int = 0) -> int:
        """``NUM_REGS``, ``LOCAL_SIZE_BYTES``, ``SHARED_SIZE_BYTES``, ``MAX_THREADS_PER_BLOCK``, as loaded."""
        driver = bindings()
        which = getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(call(driver.cuKernelGetAttribute, which, self.kernel, call(driver.cuDeviceGet, ordinal)))

    def set_attribute(self, name: str, value: int, ordinal: int = 0) -> None:
        driver = bindings()
        which = getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        call(driver.cuKernelSetAttribute, which, value, self.kernel, call(driver.cuDeviceGet, ordinal))


class Launcher:
    """Launches one loaded kernel for one signature.

    No lock: a launch takes a buffer from a list and puts it back, which Python does in one step each, and
    cuLaunchKernel has copied the parameters when it returns.
    """

    __slots__ = ("_format", "_free", "_function", "_launch", "_pack_into", "arguments", "loaded", "read", "types")

    def __init__(
        self, loaded: LoadedKernel, arguments: Sequence[Argument], types: Sequence[Any], *, lenient: bool = False
    ) -> None:
        self.loaded = loaded
        self.arguments = tuple(arguments)
        self.types = tuple(types)
        self.read: Callable[[Sequence[Any]], list[Any] | None] = reader(arguments, types, lenient=lenient)
        self._format = format_of(arguments)
        self._pack_into = struct.Struct(self._format).pack_into
        self._free = [ParameterBuffer(self._format)]
        self._function = loaded.function
        self._launch = bindings().cuLaunchKernel

    def launch(self, geometry: Geometry, flat: Sequence[Any]) -> str:
        """Queue one launch of what ``read`` gave. Returns the driver's name for what went wrong, empty if nothing;
        ``UNFIT`` says that a number does not fit its type."""
        try:
            buffer = self._free.pop()
        except IndexError:  # another thread is in the middle of a launch
            buffer = ParameterBuffer(self._format)
        try:
            self._pack_into(buffer.memory, 0, *flat)
            (status,) = self._launch(self._function, *geometry, buffer.address, 0)
        except (struct.error, OverflowError, TypeError):
            return "UNFIT"
        finally:
            self._free.append(buffer)
        return "" if not status else self._again(status, geometry, flat)

    def _again(self, status: Any, geometry: Geometry, flat: Sequence[Any]) -> str:
        """A thread that has no context yet gets the device's primary one, and a second try."""
        if status.name != "CUDA_ERROR_INVALID_CONTEXT":
            return status.name
        try:
            use_primary_context()
        except DeviceError as error:
            return error.what
        buffer = ParameterBuffer(self._format)
        self._pack_into(buffer.memory, 0, *flat)
        (status,) = self._launch(self._function, *geometry, buffer.address, 0)
        return "" if not status else status.name
