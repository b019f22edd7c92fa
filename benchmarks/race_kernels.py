"""The kernels that race_study.py races: five of Numba's from 3 us to 3 ms, and a loop whose trips are in its PTX."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from machine import use_checkout

use_checkout()

from hybridcc.frontends.numba import prepare  # noqa: E402

prepare()

from numba import cuda, float32  # noqa: E402

from hybridcc.passes.kernel import Argument, ArrayType, Field  # noqa: E402
from hybridcc.passes.verify.launch import Launch  # noqa: E402
from hybridcc.runtime.race import Contender  # noqa: E402

TILE = 16


@dataclass(frozen=True, slots=True)
class Entrants:
    """What two sides of a race are made of. ``right`` is the verdict on the variant that the truth asks for."""

    name: str
    baseline: Contender
    variant: Contender
    arguments: Sequence[Argument]
    launch: Launch
    right: str

    @property
    def code(self) -> str:
        """Hash of both sides' machine code."""
        return hashlib.sha256(self.baseline.cubin + self.variant.cubin).hexdigest()[:16]


# --- the same against the same ---


def scale(x: Any, y: Any, a: Any) -> None:
    i = cuda.grid(1)
    if i < y.shape[0]:
        y[i] = a * x[i]


def stencil(x: Any, y: Any) -> None:
    j, i = cuda.grid(2)
    if 0 < i < x.shape[0] - 1 and 0 < j < x.shape[1] - 1:
        y[i, j] = x[i, j] + x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]


def mandelbrot(y: Any) -> None:
    j, i = cuda.grid(2)
    if i < y.shape[0] and j < y.shape[1]:
        re = j * (3.0 / y.shape[1]) - 2.0
        im = i * (2.0 / y.shape[0]) - 1.0
        zr = 0.0
        zi = 0.0
        n = 0
        while n < 60 and zr * zr + zi * zi < 4.0:
            zr, zi = zr * zr - zi * zi + re, 2.0 * zr * zi + im
            n += 1
        y[i, j] = n


def matmul(a: Any, b: Any, c: Any) -> None:
    sa = cuda.shared.array((TILE, TILE), float32)
    sb = cuda.shared.array((TILE, TILE), float32)
    j, i = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = float32(0)
    for tile in range(a.shape[1] // TILE):
        sa[ty, tx] = a[i, tile * TILE + tx]
        sb[ty, tx] = b[tile * TILE + ty, j]
        cuda.syncthreads()
        for k in range(TILE):
            total += sa[ty, k] * sb[k, tx]
        cuda.syncthreads()
    c[i, j] = total


def nbody(p: Any, f: Any) -> None:
    i = cuda.grid(1)
    if i < f.shape[0]:
        x = p[i, 0]
        y = p[i, 1]
        z = p[i, 2]
        total = float32(0)
        for j in range(p.shape[0]):
            dx = p[j, 0] - x
            dy = p[j, 1] - y
            dz = p[j, 2] - z
            total += p[j, 3] / (dx * dx + dy * dy + dz * dz + float32(0.01))
        f[i] = total


def numba_kernels() -> dict[str, Callable[[str], Entrants]]:
    """By name, shortest first: what makes the race for an architecture."""
    random = np.random.default_rng(7)

    def floats(*shape: int) -> np.ndarray:
        return random.random(shape, np.float32)

    def zeros(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.float32)

    n, side, points = 3 << 18, 1024, 16384
    launches = {
        scale: Launch((n // 256, 1, 1), (256, 1, 1), (floats(n), zeros(n), np.float32(3))),
        stencil: Launch((64, 256, 1), (32, 8, 1), (floats(2048, 2048), zeros(2048, 2048))),
        mandelbrot: Launch((32, 128, 1), (32, 8, 1), (zeros(side, side),)),
        matmul: Launch((64, 64, 1), (TILE, TILE, 1), (floats(side, side), floats(side, side), zeros(side, side))),
        nbody: Launch((points // 128, 1, 1), (128, 1, 1), (floats(points, 4), zeros(points))),
    }
    return {
        function.__name__: lambda arch, f=function, launch=launch: _same(f, launch, arch)
        for function, launch in launches.items()
    }


def _same(function: Callable[..., None], launch: Launch, arch: str) -> Entrants:
    import hybridcc
    from hybridcc.runtime.assemble import assemble

    kernel = hybridcc.jit(function)
    compiled = kernel.compile_for(kernel.types_of(launch.values), arch)
    code = assemble(compiled.ptx, compiled.arch).bytes
    baseline, variant = (Contender(name, code, compiled.entry) for name in ("baseline", "v"))
    return Entrants(function.__name__, baseline, variant, compiled.arguments, launch, "same")


# --- N trips against 1.02 N ---

LOOPS = {"7 us": (100, 896), "74 us": (1050, 1024), "1.2 ms": (17300, 1024)}
"""(trips, threads per block) by about how long they take on an H200 at 1.98 GHz, where 1024 threads took 8.25 us for
100 trips, 112.1 for 1600 and 1821.5 for 26300: 1.36 us and 69.2 ns per trip, taken to be in proportion to the warps."""

FASTER, SLOWER = "faster", "slower"

LOOP_PTX = """.version 7.8
.target sm_80
.address_size 64

// y[i] = x[i], after multiplying by x[0] = 1 and adding x[1] = 0 over and over: any number of trips leaves the same.
.visible .entry loop(.param .u64 x, .param .u64 y)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    mul.wide.s32 %rd3, %r4, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    ld.global.f32 %f2, [%rd1];
    ld.global.f32 %f3, [%rd1+4];
    mov.u32 %r5, 0;
$NEXT:
    .pragma "nounroll";
FMAS
    add.s32 %r5, %r5, 1;
    setp.lt.s32 %p1, %r5, TRIPS;
    @%p1 bra $NEXT;
    st.global.f32 [%rd5], %f1;
    ret;
}
"""


def loop_ptx(trips: int) -> str:
    fmas = "\n".join(["    fma.rn.f32 %f1, %f1, %f2, %f3;"] * 8)
    return LOOP_PTX.replace("FMAS", fmas).replace("TRIPS", str(trips))


def loop(target: str, right: str, arch: str, multiprocessors: int) -> Entrants:
    """The variant is the side with fewer trips where ``right`` is faster, and the other where it is slower."""
    from hybridcc.runtime.assemble import assemble

    few, threads = LOOPS[target]
    many = math.floor(few * 1.02 + 0.5)
    trips = (many, few) if right == FASTER else (few, many)
    baseline, variant = (
        Contender(name, assemble(loop_ptx(count), arch).bytes, "loop")
        for name, count in zip(("baseline", "v"), trips, strict=True)
    )
    x = np.random.default_rng(8).random(multiprocessors * threads, np.float32)
    x[:2] = 1, 0
    pointers = [Argument(name, ArrayType("float32", 1), (Field("data", ".u64"),)) for name in ("x", "y")]
    launch = Launch((multiprocessors, 1, 1), (threads, 1, 1), (x, np.zeros_like(x)))
    return Entrants(f"loop of {target}", baseline, variant, pointers, launch, right)
