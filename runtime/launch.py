"""A selected cubin in place: launched with a buffer that is filled and never allocated anew."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

from hybridcc.errors import DeviceError
from hybridcc.passes.kernel import Argument
from hybridcc.passes.verify.launch import as_shape
from hybridcc.runtime.device import count
from hybridcc.runtime.driver import bindings, current_ordinal, use_primary_context
from hybridcc.runtime.loaded import SHARED_UNASKED, Attributes, LoadedKernel
from hybridcc.runtime.parameters import ParameterBuffer, Reader, format_of, reader

__all__ = ["Attributes", "Geometry", "Launcher", "LoadedKernel", "geometry"]

Geometry: TypeAlias = tuple[int, int, int, int, int, int, int, Any]
"""Grid, block, bytes of dynamic shared memory, stream: cuLaunchKernel's arguments in its order."""


def geometry(grid: Any, block: Any, shared_bytes: int = 0, stream: int = 0) -> Geometry:
    """``stream`` is the driver's handle (driver.stream_handle)."""
    queue = bindings().CUstream(stream)
    gx, gy, gz = as_shape(grid)
    bx, by, bz = as_shape(block)
    return gx, gy, gz, bx, by, bz, shared_bytes, queue


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
