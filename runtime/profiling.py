"""Profiles measured on the GPU: the kernel and its instrumented clones launched on copies of one launch's arguments."""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from hybridcc.errors import ProfileError
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.profile.estimate import model_target
from hybridcc.passes.profile.instrument import Clone, CountingClone, TimingClone, counting_clone, timing_clone
from hybridcc.passes.profile.profile import Profile, key_of, launch_words
from hybridcc.passes.verify.launch import Launch, buffers
from hybridcc.ptx.targets import blocks_per_sm
from hybridcc.runtime import race_memory
from hybridcc.runtime.assemble import Cubin, assemble
from hybridcc.runtime.device import Device
from hybridcc.runtime.driver import bindings, call, use_primary_context
from hybridcc.runtime.launch import LoadedKernel, geometry
from hybridcc.runtime.race_job import Parameters, alignments_of, parameters_of

LONG_SECONDS: Final = 0.1
"""A launch that takes longer is sampled, unless the caller says how."""
SAMPLE_EVERY: Final = 16
REPEATS: Final = 7


@dataclass(frozen=True, slots=True)
class Measured:
    """``profile`` with counts and clock shares. Seconds are medians over REPEATS launches, alternating between the
    three machine codes, each from restored arguments; overheads are ratios to the kernel itself."""

    profile: Profile
    seconds: float
    counting_overhead: float
    timing_overhead: float | None


@dataclass(slots=True)
class _Code:
    """One machine code ready to launch."""

    loaded: LoadedKernel
    clone: Clone | None
    symbol: int = 0
    seconds: list[float] | None = None


class _Bench:
    """The device's side of one launch: buffers, their pristine copies, parameters."""

    def __init__(self, kernel: Kernel, launch: Launch, device: Device) -> None:
        use_primary_context(device.ordinal)
        self.launch, self.device = launch, device
        self.parameters: Parameters = parameters_of(kernel.arguments, launch)
        self.roots = buffers(launch)
        self.sizes = [root.nbytes for root in self.roots]
        self.pristine = [race_memory.allocate(size) for size in self.sizes]
        for address, root in zip(self.pristine, self.roots, strict=True):
            flat = root if root.flags.c_contiguous else root.T
            race_memory.upload(address, flat)
        self.buffers = race_memory.buffer_set(self.sizes, alignments_of(launch))
        data = self.parameters.filled(self.buffers.addresses)
        self._memory = ctypes.create_string_buffer(data, len(data))
        base = ctypes.addressof(self._memory)
        offsets = self.parameters.offsets
        self._pointers = (ctypes.c_void_p * len(offsets))(*(base + offset for offset in offsets))
        driver = bindings()
        self._events = [call(driver.cuEventCreate, 0) for _ in range(2)]

    def run(self, code: _Code) -> float:
        """One launch from the caller's values; seconds between events round it."""
        driver = bindings()
        for address, source, size in zip(self.buffers.addresses, self.pristine, self.sizes, strict=True):
            if size:
                call(driver.cuMemcpyDtoD, address, source, size)
        if code.clone is not None:
            call(driver.cuMemsetD8, code.symbol, 0, code.clone.buffer_bytes)
        where = geometry(self.launch.grid, self.launch.block, self.launch.shared_bytes)
        call(driver.cuCtxSynchronize)
        call(driver.cuEventRecord, self._events[0], 0)
        call(driver.cuLaunchKernel, code.loaded.function, *where, ctypes.addressof(self._pointers), 0)
        call(driver.cuEventRecord, self._events[1], 0)
        call(driver.cuEventSynchronize, self._events[1])
        return float(call(driver.cuEventElapsedTime, *self._events)) / 1000

    def outputs(self) -> list[bytes]:
        pairs = zip(self.buffers.addresses, self.sizes, strict=True)
        return [race_memory.download(address, size) if size else b"" for address, size in pairs]

    def close(self) -> None:
        for address in (*self.pristine, *self.buffers.allocations):
            call(bindings().cuMemFree, address)


def measure(
    kernel: Kernel, launch: Launch, device: Device, regions: Sequence[Any], *, every: int | None = None
) -> Measured:
    """Counts, clock shares and the cost of taking them. Nothing of the caller's is written.

    ``every`` samples one thread block in so many; None decides by the length of one launch. Raises
    ProfileError(OUTPUT_CHANGED) if a clone's outputs differ from the kernel's, AssemblyError, DeviceError.
    """
    bench = _Bench(kernel, launch, device)
    try:
        return _measure(bench, kernel, launch, device, regions, every)
    finally:
        bench.close()


def _measure(
    bench: _Bench, kernel: Kernel, launch: Launch, device: Device, regions: Sequence[Any], every: int | None
) -> Measured:
    cubin = assemble(kernel.ptx, device.arch)
    plain = _load(bench, cubin, kernel.entry, None)
    bench.run(plain)
    expected = bench.outputs()
    first = bench.run(plain)
    if every is None:
        every = SAMPLE_EVERY if first > LONG_SECONDS else 1
    counting = counting_clone(kernel.ptx, kernel.entry, every=every)
    codes = [plain, _load(bench, assemble(counting.ptx, device.arch), kernel.entry, counting)]
    timed = [r for r in regions if r.exit >= 0]
    if timed:
        timing = timing_clone(kernel.ptx, kernel.entry, timed)
        codes.append(_load(bench, assemble(timing.ptx, device.arch), kernel.entry, timing))
    found = [_results(bench, code, expected, kernel) for code in codes]
    shares: list[tuple[float, ...]] = []
    for _ in range(REPEATS):
        for code in codes:
            assert code.seconds is not None
            code.seconds.append(bench.run(code))
            if isinstance(code.clone, TimingClone):
                shares.append(code.clone.shares(_buffer(code)))
    profile = _profile(kernel, launch, cubin, counting, found[1])
    if timed:
        # Not of the first launch, whose warps wait together for code that no cache holds yet.
        middle = [statistics.median(one) for one in zip(*shares, strict=True)]
        profile = replace(profile, shares=dict(zip((r.id for r in timed), middle, strict=True)))
    medians = [statistics.median(code.seconds or [0.0]) for code in codes]
    return Measured(profile, medians[0], medians[1] / medians[0], medians[2] / medians[0] if len(medians) > 2 else None)


def _load(bench: _Bench, cubin: Cubin, entry: str, clone: Clone | None) -> _Code:
    loaded = LoadedKernel(cubin.bytes, entry)
    if bench.launch.shared_bytes > 48 << 10:
        loaded.set_attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES", bench.launch.shared_bytes, bench.device.ordinal)
    symbol = 0 if clone is None else loaded.symbol(clone.symbol)
    return _Code(loaded, clone, symbol, [])


def _results(bench: _Bench, code: _Code, expected: list[bytes], kernel: Kernel) -> bytes:
    """One launch, checked against the kernel's own outputs; the clone's buffer."""
    bench.run(code)
    if bench.outputs() != expected:
        raise ProfileError(
            "OUTPUT_CHANGED",
            f"an instrumented clone of {kernel.name} gave other outputs than the kernel",
            next_step="if the kernel gives the same outputs twice, report this with its PTX",
        )
    return _buffer(code)


def _buffer(code: _Code) -> bytes:
    return b"" if code.clone is None else race_memory.download(code.symbol, code.clone.buffer_bytes)


def _profile(kernel: Kernel, launch: Launch, cubin: Cubin, clone: CountingClone, buffer: bytes) -> Profile:
    blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
    per_block = launch.block[0] * launch.block[1] * launch.block[2]
    counted = clone.counted(blocks)
    factor = blocks / counted if counted else 1.0
    counts = tuple(c * factor for c in clone.counts(buffer, counted * per_block))
    notes = () if clone.every == 1 else (f"sampled: {counted} of {blocks} thread blocks",)
    return Profile(
        "measured",
        key_of(kernel),
        kernel.arch,
        counts,
        clone.firsts,
        launch_words(launch),
        launch.threads,
        _warps(launch, cubin, kernel),
        counted / blocks if blocks else 1.0,
        notes=notes,
    )


def _warps(launch: Launch, cubin: Cubin, kernel: Kernel) -> float | None:
    """Warps that share a multiprocessor, by the occupancy rules and the size of the grid."""
    on = model_target(kernel.arch)
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    used = cubin.resources(kernel.entry)
    resident = blocks_per_sm(on, threads=threads, registers=used.registers, shared=used.shared + launch.shared_bytes)
    blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
    here = min(float(resident), blocks / on.board.multiprocessors)
    return max(1.0, here * -(-threads // 32))
