"""A selected cubin in place: loaded once, launched with a buffer that is filled and never allocated anew."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from hybridcc.errors import DeviceError
from hybridcc.passes.kernel import Argument
from hybridcc.passes.verify.launch import as_shape
from hybridcc.runtime.device import count
from hybridcc.runtime.driver import bindings, call, current_ordinal, use_primary_context
from hybridcc.runtime.parameters import ParameterBuffer, Reader, format_of, reader

Geometry: TypeAlias = tuple[int, int, int, int, int, int, int, Any]
"""Grid, block, bytes of dynamic shared memory, stream: cuLaunchKernel's arguments in its order."""


def geometry(grid: Any, block: Any, shared_bytes: int = 0, stream: int = 0) -> Geometry:
    """``stream`` is the driver's handle (driver.stream_handle)."""
    queue = bindings().CUstream(stream)
    gx, gy, gz = as_shape(grid)
    bx, by, bz = as_shape(block)
    return gx, gy, gz, bx, by, bz, shared_bytes, queue


SHARED_UNASKED = 48 << 10
"""Bytes of dynamic shared memory that any kernel may have (CUDA C++ Programming Guide, shared memory)."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """One kernel as loaded. ``local_bytes`` are per thread, ``binary_version`` is 90 for sm_90."""

    registers: int
    local_bytes: int
    shared_bytes: int
    constant_bytes: int
    max_threads: int
    max_dynamic_shared_bytes: int
    binary_version: int


class LoadedKernel:
    """One entry of a cubin, for every context of its process: the driver puts it into the current one here, so that
    the first launch may be one that a graph captures, and into each other one at the first launch there."""

    __slots__ = ("_library", "entry", "function", "kernel")

    def __init__(self, cubin: bytes, entry: str) -> None:
        """Raises DeviceError when the driver refuses the bytes, for instance those of another architecture."""
        driver = bindings()
        use_primary_context()
        self._library = call(driver.cuLibraryLoadData, cubin, None, None, 0, None, None, 0)
        self.kernel = call(driver.cuLibraryGetKernel, self._library, entry.encode())
        self.function = driver.CUfunction(int(self.kernel))  # cuLaunchKernel takes a CUkernel in its place
        call(driver.cuKernelGetFunction, self.kernel)  # loads it now, also where loading is lazy
        self.entry = entry

    def attributes(self, ordinal: int = 0) -> Attributes:
        """What the driver has loaded, which may differ from what the assembler's log said."""
        return Attributes(
            registers=self.attribute("NUM_REGS", ordinal),
            local_bytes=self.attribute("LOCAL_SIZE_BYTES", ordinal),
            shared_bytes=self.attribute("SHARED_SIZE_BYTES", ordinal),
            constant_bytes=self.attribute("CONST_SIZE_BYTES", ordinal),
            max_threads=self.attribute("MAX_THREADS_PER_BLOCK", ordinal),
            max_dynamic_shared_bytes=self.attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES", ordinal),
            binary_version=self.attribute("BINARY_VERSION", ordinal),
        )

    def allow_shared(self, dynamic_bytes: int, ordinal: int = 0) -> None:
        """Let a launch have so much dynamic shared memory: more than 48 KiB must be asked for. Raises DeviceError."""
        if dynamic_bytes > SHARED_UNASKED and dynamic_bytes > self.attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES", ordinal):
            self.set_attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES", dynamic_bytes, ordinal)

    def attribute(self, name: str, ordinal: int = 0) -> int:
        """``NUM_REGS``, ``LOCAL_SIZE_BYTES``, ``SHARED_SIZE_BYTES``, ``MAX_THREADS_PER_BLOCK``, as loaded."""
        driver = bindings()
        which = getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(call(driver.cuKernelGetAttribute, which, self.kernel, call(driver.cuDeviceGet, ordinal)))

    def symbol(self, name: str) -> int:
        """The address of a module-scope variable in the current context. Raises DeviceError."""
        address, _ = call(bindings().cuLibraryGetGlobal, self._library, name.encode())
        return int(address)

    def set_attribute(self, name: str, value: int, ordinal: int = 0) -> None:
        driver = bindings()
        which = getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        call(driver.cuKernelSetAttribute, which, value, self.kernel, call(driver.cuDeviceGet, ordinal))

    def global_address(self, name: str) -> tuple[int, int]:
        """(address, bytes) of a module-scope variable in this thread's context."""
        address, size = call(bindings().cuLibraryGetGlobal, self._library, name.encode())
        return int(address), int(size)

    def unload(self) -> None:
        """It cannot be launched any more."""
        call(bindings().cuLibraryUnload, self._library)


def _cooperatively(*given: Any) -> tuple[Any, ...]:
    """Takes what cuLaunchKernel takes: that one has a parameter more at the end."""
    return bindings().cuLaunchCooperativeKernel(*given[:-1])


class Launcher:
    """Launches one loaded kernel for one signature.

    No lock: a launch takes a buffer from a list and puts it back, which Python does in one step each, and
    cuLaunchKernel has copied the parameters when it returns.
    """

    __slots__ = (
        *("_format", "_free", "_function", "_launch", "_pack_into"),
        *("arguments", "loaded", "ordinal", "read", "types"),
    )

    def __init__(
        self,
        loaded: LoadedKernel,
        arguments: Sequence[Argument],
        types: Sequence[Any],
        *,
        lenient: bool = False,
        cooperative: bool = False,
        ordinal: int = 0,
    ) -> None:
        """``cooperative`` launches so that all blocks run at once and may wait for each other. ``ordinal`` is the
        device that this was selected on: where there are several, ``read`` gives None on the others."""
        self.loaded = loaded
        self.ordinal = ordinal
        self.arguments = tuple(arguments)
        self.types = tuple(types)
        read = reader(arguments, types, lenient=lenient)
        self.read: Reader = read if count() == 1 else self._here_alone(read)
        self._format = format_of(arguments)
        self._pack_into = struct.Struct(self._format).pack_into
        self._free = [ParameterBuffer(self._format)]
        self._function = loaded.function
        driver = bindings()
        self._launch = _cooperatively if cooperative else driver.cuLaunchKernel

    def _here_alone(self, read: Reader) -> Reader:
        ordinal = self.ordinal

        def here(values: Sequence[Any], stream: int = 0) -> Sequence[Any] | None:
            return read(values, stream) if current_ordinal() == ordinal else None

        return here

    @property
    def is_here(self) -> bool:
        """Whether this thread's device is the one that this was selected on."""
        return count() == 1 or current_ordinal() == self.ordinal

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
        """A thread that has no context yet gets the device's primary one, a launch that wants more than 48 KiB of
        dynamic shared memory is allowed it, and either gets a second try."""
        shared_bytes = geometry[6]
        try:
            if status.name == "CUDA_ERROR_INVALID_CONTEXT":
                use_primary_context()
            elif status.name == "CUDA_ERROR_INVALID_VALUE" and shared_bytes > SHARED_UNASKED:
                self.loaded.allow_shared(shared_bytes, current_ordinal())
            else:
                return status.name
        except DeviceError as error:
            return error.what
        buffer = ParameterBuffer(self._format)
        self._pack_into(buffer.memory, 0, *flat)
        (status,) = self._launch(self._function, *geometry, buffer.address, 0)
        return "" if not status else status.name
