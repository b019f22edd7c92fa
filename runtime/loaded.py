"""A cubin, or PTX that the driver compiles, in place: loaded once for every context of the process."""

from __future__ import annotations

from dataclasses import dataclass

from hybridcc.runtime.driver import bindings, call, use_primary_context

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
