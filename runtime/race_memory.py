"""Device memory of a race: copies of the caller's buffers between red zones, compared bit for bit on the device.

Comparing there costs microseconds where copying gigabytes to the host costs seconds, so it can be done often. The
comparison is a kernel of our own; it is itself checked on a planted difference before it is believed.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridcc.errors import DeviceError
from hybridcc.runtime.device import Device
from hybridcc.runtime.driver import bindings, call
from hybridcc.runtime.launch import LoadedKernel
from hybridcc.runtime.race_job import ALIGNMENT

RED_ZONE = 4096
"""Bytes before and after every buffer that no launch may touch."""

RED, POISON = 0xA5, 0xFF
"""Poison bytes make every float a NaN and every integer -1."""

WORD = 4

SMALLER = "race with smaller inputs, or free some of the GPU's memory"

COMPARE_PTX = """.version 7.0
.target sm_52
.address_size 64

// The lowest index at which two arrays of 32-bit words differ goes into found[0] by minimum; found[1] counts them.
.visible .entry compare(.param .u64 left, .param .u64 right, .param .u64 words, .param .u64 found)
{
    .reg .pred %p<3>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<12>;
    ld.param.u64 %rd1, [left];
    ld.param.u64 %rd2, [right];
    ld.param.u64 %rd3, [words];
    ld.param.u64 %rd4, [found];
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    cvta.to.global.u64 %rd4, %rd4;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mov.u32 %r4, %nctaid.x;
    mul.wide.u32 %rd5, %r1, %r2;
    cvt.u64.u32 %rd6, %r3;
    add.s64 %rd5, %rd5, %rd6;
    mul.wide.u32 %rd7, %r4, %r2;
$NEXT:
    setp.ge.u64 %p1, %rd5, %rd3;
    @%p1 bra $END;
    shl.b64 %rd8, %rd5, 2;
    add.s64 %rd9, %rd1, %rd8;
    add.s64 %rd10, %rd2, %rd8;
    ld.global.u32 %r5, [%rd9];
    ld.global.u32 %r6, [%rd10];
    setp.eq.s32 %p2, %r5, %r6;
    @%p2 bra $SAME;
    red.global.min.u64 [%rd4], %rd5;
    red.global.add.u64 [%rd4+8], 1;
$SAME:
    add.s64 %rd5, %rd5, %rd7;
    bra $NEXT;
$END:
    ret;
}
"""

NOTHING = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Difference:
    """``byte`` counts from the start of the buffer and is negative or past its end where a red zone was hit."""

    buffer: int
    byte: int
    outside: bool
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class BufferSet:
    """One copy of the launch's memory: allocations of ``wholes`` bytes that hold the buffers at ``addresses``."""

    allocations: tuple[int, ...]
    wholes: tuple[int, ...]
    addresses: tuple[int, ...]


_LIVE: set[int] = set()
"""Everything that this process has allocated and not freed."""


class OutOfMemory(DeviceError):
    """The GPU has not so many bytes to give."""


def allocate(size: int) -> int:
    """Bytes of device memory. Raises OutOfMemory, DeviceError."""
    try:
        address = int(call(bindings().cuMemAlloc, max(1, size)))
    except DeviceError as error:
        if "OUT_OF_MEMORY" not in error.what:
            raise
        raise OutOfMemory(f"{size} bytes: {error.what}", next_step=SMALLER) from error
    _LIVE.add(address)
    return address


def release(address: int) -> None:
    _LIVE.discard(address)
    call(bindings().cuMemFree, address)


def free(what: BufferSet) -> None:
    for address in what.allocations:
        release(address)


def free_all() -> None:
    while _LIVE:
        call(bindings().cuMemFree, _LIVE.pop())


def upload(address: int, data: np.ndarray) -> None:
    if data.size:
        call(bindings().cuMemcpyHtoD, address, data.ctypes.data, data.nbytes)


def download(address: int, size: int) -> bytes:
    data = np.empty(size, np.uint8)
    call(bindings().cuMemcpyDtoH, data.ctypes.data, address, size)
    return data.tobytes()


def whole_size(size: int) -> int:
    """A buffer with its red zones and the room to move it to the caller's alignment, in whole words."""
    return -(-(RED_ZONE + ALIGNMENT + size + RED_ZONE) // 16) * 16


def buffer_set(sizes: Sequence[int], alignments: Sequence[int]) -> BufferSet:
    """Buffers at the alignments given (address modulo ALIGNMENT), all bytes red."""
    allocations, addresses = [], []
    for size, alignment in zip(sizes, alignments, strict=True):
        base = allocate(whole_size(size))
        call(bindings().cuMemsetD8, base, RED, whole_size(size))
        allocations.append(base)
        addresses.append(place(base, alignment))
    return BufferSet(tuple(allocations), tuple(whole_size(size) for size in sizes), tuple(addresses))


def repaint(damaged: BufferSet) -> None:
    """All bytes red again, after a launch that wrote where it must not."""
    for base, whole in zip(damaged.allocations, damaged.wholes, strict=True):
        call(bindings().cuMemsetD8, base, RED, whole)


def place(base: int, alignment: int) -> int:
    """The first address behind the red zone at ``base`` that has the alignment."""
    start = base + RED_ZONE
    return start + (alignment - start) % ALIGNMENT


def snapshot(source: BufferSet, stream: Any) -> BufferSet:
    """A copy of everything, red zones too."""
    copies = tuple(allocate(whole) for whole in source.wholes)
    for target, origin, whole in zip(copies, source.allocations, source.wholes, strict=True):
        call(bindings().cuMemcpyDtoDAsync, target, origin, whole, stream)
    moved = tuple(c + a - o for c, a, o in zip(copies, source.addresses, source.allocations, strict=True))
    return BufferSet(copies, source.wholes, moved)


def red_zones_intact(found: BufferSet, sizes: Sequence[int]) -> bool:
    for base, whole, address, size in zip(found.allocations, found.wholes, found.addresses, sizes, strict=True):
        before = download(base, address - base)
        after = download(address + size, base + whole - address - size)
        if (before + after).strip(bytes([RED])):
            return False
    return True


class Comparer:
    """Finds where two buffer sets of one layout first differ."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.kernel = LoadedKernel(COMPARE_PTX.encode() + b"\0", "compare")
        self._found = allocate(16)

    def first(self, left: int, right: int, size: int) -> int | None:
        """The first differing byte (rounded down to a word) of two device arrays; ``size`` in whole words."""
        word, _ = self._compare(left, right, size)
        return None if word == NOTHING else word * WORD

    def count(self, left: int, right: int, size: int) -> int:
        """How many bytes differ, in whole words."""
        return self._compare(left, right, size)[1] * WORD

    def _compare(self, left: int, right: int, size: int) -> tuple[int, int]:
        """(the first differing word or NOTHING, how many differ)."""
        driver = bindings()
        upload(self._found, np.array([NOTHING, 0], np.uint64))
        values = ctypes.create_string_buffer(struct.pack("=4Q", left, right, size // WORD, self._found), 32)
        base = ctypes.addressof(values)
        pointers = (ctypes.c_void_p * 4)(base, base + 8, base + 16, base + 24)
        grid = max(1, min(4096, size // WORD // 256))
        call(
            driver.cuLaunchKernel, self.kernel.function, grid, 1, 1, 256, 1, 1, 0, self._stream,
            ctypes.addressof(pointers), 0,
        )  # fmt: skip
        call(driver.cuStreamSynchronize, self._stream)
        word, count = struct.unpack("=2Q", download(self._found, 16))
        return word, count

    def works(self) -> bool:
        """Whether it finds one planted word, at the very end, and nothing where nothing is."""
        size = 1 << 16
        left, right = allocate(size), allocate(size)
        data = np.arange(size, dtype=np.uint32).view(np.uint8)[:size]
        upload(left, data)
        upload(right, data)
        if self.first(left, right, size) is not None:
            return False
        upload(right + size - WORD, np.frombuffer(b"\x01\x02\x03\x05", np.uint8))
        return self.first(left, right, size) == size - WORD

    def difference(self, expected: BufferSet, found: BufferSet, sizes: Sequence[int]) -> Difference | None:
        for index, (left, right, whole) in enumerate(
            zip(expected.allocations, found.allocations, found.wholes, strict=True)
        ):
            at = self.first(left, right, whole)
            if at is not None:
                byte = at - (found.addresses[index] - found.allocations[index])
                return Difference(
                    index, byte, not 0 <= byte < sizes[index],
                    download(left + at, WORD).hex(), download(right + at, WORD).hex(),
                )  # fmt: skip
        return None


SCRUB_PTX = """.version 7.0
.target sm_52
.address_size 64

.extern .shared .align 16 .b8 room[];

// Fills the block's dynamic shared memory.
.visible .entry scrub(.param .u32 words, .param .u32 pattern)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    ld.param.u32 %r1, [words];
    ld.param.u32 %r2, [pattern];
    mov.u32 %r3, %tid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, room;
$NEXT:
    setp.ge.u32 %p1, %r3, %r1;
    @%p1 bra $END;
    shl.b32 %r6, %r3, 2;
    add.u32 %r6, %r5, %r6;
    st.volatile.shared.u32 [%r6], %r2;
    add.u32 %r3, %r3, %r4;
    bra $NEXT;
$END:
    ret;
}
"""

PATTERNS = (0xFFFFFFFF, 0x00000000, 0x5A5A5A5A)
"""Shared memory before checked launches, in turn: -1 and NaN, what it may hold by chance, something large."""


SMALL = 4096
"""Bytes of a small block's shared memory."""


class Scrubber:
    """Leaves another pattern in every multiprocessor's shared memory each time: a kernel that reads what no one of its
    block has written gives other bits then."""

    def __init__(self, stream: Any, facts: Device) -> None:
        driver = bindings()
        self._stream = stream
        self.kernel = LoadedKernel(SCRUB_PTX.encode() + b"\0", "scrub")
        handle = call(driver.cuDeviceGet, facts.ordinal)
        which = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        most = int(call(driver.cuDeviceGetAttribute, which, handle))
        self.kernel.set_attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES", most, facts.ordinal)
        # Blocks as large as there can be, then small ones: the cache is divided otherwise for kernels that use little.
        self._sizes = tuple((size, 2 * facts.multiprocessors * (most // size)) for size in (most, SMALL))
        self._turn = 0

    def run(self) -> None:
        """Queue it."""
        pattern = PATTERNS[self._turn % len(PATTERNS)]
        self._turn += 1
        for size, blocks in self._sizes:
            values = struct.pack("=2I", size // WORD, pattern)
            memory = ctypes.create_string_buffer(values, len(values))
            base = ctypes.addressof(memory)
            pointers = (ctypes.c_void_p * 2)(base, base + 4)
            call(
                bindings().cuLaunchKernel, self.kernel.function, blocks, 1, 1, 256, 1, 1, size, self._stream,
                ctypes.addressof(pointers), 0,
            )  # fmt: skip


COUNTERS = "hybridcc_guards"
"""The module-scope array of 64-bit counters in an instrumented clone: per guarded rewrite (taken, not taken)."""


def counters(loaded: LoadedKernel) -> list[list[int]]:
    address, size = loaded.global_address(COUNTERS)
    values = np.frombuffer(download(address, size), np.uint64).astype(int)
    return values.reshape(-1, 2).tolist()
