"""Clocks and throttling as NVIDIA's management library reads them; None where it is absent. Nothing is ever set."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

_SM, _MEMORY = 1, 2  # nvml.h: NVML_CLOCK_SM, NVML_CLOCK_MEM
_REASONS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "thermal slowdown by software",
    0x40: "thermal slowdown by hardware",
    0x80: "power brake",
}
"""nvml.h: nvmlClocksEventReason*; idle and user settings are no throttling."""

_THERMAL = 0x08 | 0x20 | 0x40 | 0x80


@dataclass(frozen=True, slots=True)
class ClockReading:
    """MHz; ``reasons`` says what holds the clock down, empty if nothing does."""

    sm_mhz: int
    memory_mhz: int
    reasons: tuple[str, ...] = ()
    throttled: bool = False
    """Held down by heat or by the board: what was timed meanwhile says nothing about the kernel."""


class Clocks:
    """Reads one GPU's clocks: some microseconds a reading."""

    def __init__(self, library: ctypes.CDLL, handle: ctypes.c_void_p) -> None:
        self._library = library
        self._handle = handle

    def read(self) -> ClockReading | None:
        """None when the library refuses (a virtual machine may hide the clocks)."""
        sm, memory, reasons = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_ulonglong()
        failed = self._library.nvmlDeviceGetClockInfo(self._handle, _SM, ctypes.byref(sm))
        failed |= self._library.nvmlDeviceGetClockInfo(self._handle, _MEMORY, ctypes.byref(memory))
        if failed:
            return None
        self._library.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle, ctypes.byref(reasons))
        bits = reasons.value
        return ClockReading(
            sm.value, memory.value, tuple(text for bit, text in _REASONS.items() if bits & bit), bool(bits & _THERMAL)
        )

    def highest(self) -> tuple[int, int]:
        """(SM, memory) MHz that the GPU may reach; 0 where it is not told."""
        found = []
        for which in (_SM, _MEMORY):
            mhz = ctypes.c_uint()
            failed = self._library.nvmlDeviceGetMaxClockInfo(self._handle, which, ctypes.byref(mhz))
            found.append(0 if failed else mhz.value)
        return found[0], found[1]

    def driver_version(self) -> str:
        """The driver's own version ("580.159.03"), empty where it is not told."""
        text = ctypes.create_string_buffer(96)
        failed = self._library.nvmlSystemGetDriverVersion(text, ctypes.c_uint(96))
        return "" if failed else text.value.decode("ascii", "replace")


def open_clocks(uuid: str) -> Clocks | None:
    """For the GPU with that UUID (hexadecimal digits, as Device.uuid has it)."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    if library.nvmlInit_v2():
        return None
    dashed = f"GPU-{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}-{uuid[16:20]}-{uuid[20:32]}"
    handle = ctypes.c_void_p()
    if library.nvmlDeviceGetHandleByUUID(dashed.encode(), ctypes.byref(handle)):
        return None
    return Clocks(library, handle)
