"""A CUDA driver with GPUs that do not exist, in the place of cuda.bindings' functions: the boundary of the process.

It keeps what a driver keeps (devices, the thread's context, libraries, launches in order) and computes nothing. What
needs the real thing is in tests marked gpu.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest
from cuda.bindings import driver as real

from hybridcc.runtime import device, driver

OK = real.CUresult.CUDA_SUCCESS
H200 = ("NVIDIA H200", (9, 0))
RTX4090 = ("NVIDIA GeForce RTX 4090", (8, 9))


@dataclass
class FakeDriver:
    devices: tuple[tuple[str, tuple[int, int]], ...]
    owner: int = field(default_factory=os.getpid)
    launched: list[tuple[bytes, int]] = field(default_factory=list)
    """(the cubin, the device) of every launch."""
    libraries: list[bytes] = field(default_factory=list)
    capturing: bool = False
    thread: threading.local = field(default_factory=threading.local)

    @property
    def ordinal(self) -> int:
        return getattr(self.thread, "ordinal", 0)

    @ordinal.setter
    def ordinal(self, value: int) -> None:
        self.thread.ordinal = value

    # --- the functions; each gives a status and its results, as cuda.bindings does ---

    def cuInit(self, flags: int) -> tuple[Any, ...]:
        return (OK if os.getpid() == self.owner else real.CUresult.CUDA_ERROR_NOT_INITIALIZED,)

    def cuDriverGetVersion(self) -> tuple[Any, ...]:
        return OK, 13000

    def cuDeviceGetCount(self) -> tuple[Any, ...]:
        return OK, len(self.devices)

    def cuDeviceGet(self, ordinal: int) -> tuple[Any, ...]:
        return (OK, ordinal) if ordinal < len(self.devices) else (real.CUresult.CUDA_ERROR_INVALID_DEVICE, None)

    def cuDeviceGetName(self, length: int, ordinal: int) -> tuple[Any, ...]:
        return OK, self.devices[ordinal][0].encode() + b"\0"

    def cuDeviceGetAttribute(self, which: Any, ordinal: int) -> tuple[Any, ...]:
        capability = self.devices[ordinal][1]
        known = {"COMPUTE_CAPABILITY_MAJOR": capability[0], "COMPUTE_CAPABILITY_MINOR": capability[1]}
        return OK, known.get(which.name.removeprefix("CU_DEVICE_ATTRIBUTE_"), 100)

    def cuDeviceTotalMem(self, ordinal: int) -> tuple[Any, ...]:
        return OK, 1 << 34

    def cuDeviceGetUuid(self, ordinal: int) -> tuple[Any, ...]:
        return OK, type("Uuid", (), {"bytes": bytes([ordinal] * 16)})

    def cuCtxGetCurrent(self) -> tuple[Any, ...]:
        return OK, self.ordinal + 1

    def cuCtxGetDevice(self) -> tuple[Any, ...]:
        return OK, self.ordinal

    def cuDevicePrimaryCtxRetain(self, ordinal: int) -> tuple[Any, ...]:
        return OK, ordinal + 1

    def cuCtxSetCurrent(self, context: int) -> tuple[Any, ...]:
        self.ordinal = context - 1
        return (OK,)

    def cuStreamIsCapturing(self, stream: Any) -> tuple[Any, ...]:
        status = real.CUstreamCaptureStatus
        active, none = status.CU_STREAM_CAPTURE_STATUS_ACTIVE, status.CU_STREAM_CAPTURE_STATUS_NONE
        if self.capturing and not int(stream):
            return real.CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, None
        return OK, active if self.capturing else none

    def cuLibraryLoadData(self, code: bytes, *rest: Any) -> tuple[Any, ...]:
        self.libraries.append(code)
        return OK, len(self.libraries)

    def cuLibraryGetKernel(self, library: int, entry: bytes) -> tuple[Any, ...]:
        return OK, library

    def cuKernelGetFunction(self, kernel: int) -> tuple[Any, ...]:
        return OK, kernel

    def cuKernelGetAttribute(self, *which: Any) -> tuple[Any, ...]:
        return OK, 64 << 10

    def cuKernelSetAttribute(self, *which: Any) -> tuple[Any, ...]:
        return (OK,)

    def cuLaunchKernel(self, function: Any, *rest: Any) -> tuple[Any, ...]:
        self.launched.append((self.libraries[int(function) - 1], self.ordinal))
        return (OK,)


def install(monkeypatch: pytest.MonkeyPatch, *devices: tuple[str, tuple[int, int]]) -> FakeDriver:
    """From here to the end of the test this process has those GPUs."""
    fake = FakeDriver(devices)
    for name in dir(FakeDriver):
        if name.startswith("cu"):
            monkeypatch.setattr(real, name, getattr(fake, name))
    forget()
    return fake


def forget() -> None:
    """Whatever was learnt of the GPUs."""
    for cached in (driver.bindings, device.count, device.device):
        cached.cache_clear()
