"""The Python that kernels/*.ptx were compiled from, by numba-cuda 0.30.4 for sm_90; ..._mlir by numba-cuda-mlir."""

from __future__ import annotations

import math
from typing import Any

from numba import cuda, float32, float64, int32, int64, void

VECTOR = float32[::1]
MATRIX = float32[:, ::1]


def conv1d(x, w, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        acc = float32(0)
        for k in range(w.shape[0]):
            acc += x[i + k] * w[k]
        y[i] = acc


def colsum(a, o):
    j = cuda.grid(1)
    if j < a.shape[1]:
        s = float32(0)
        for i in range(a.shape[0]):
            s += a[i, j]
        o[j] = s


def matmul_naive(a, b, c):
    i, j = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        s = float32(0)
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] = s


def nbody(pos, acc, eps):
    i = cuda.grid(1)
    if i < pos.shape[0]:
        x = pos[i, 0]
        y = pos[i, 1]
        z = pos[i, 2]
        ax = float32(0)
        ay = float32(0)
        az = float32(0)
        for j in range(pos.shape[0]):
            dx = pos[j, 0] - x
            dy = pos[j, 1] - y
            dz = pos[j, 2] - z
            r2 = dx * dx + dy * dy + dz * dz + eps
            inv = float32(1) / math.sqrt(r2)
            inv3 = inv * inv * inv
            ax += dx * inv3
            ay += dy * inv3
            az += dz * inv3
        acc[i, 0] = ax
        acc[i, 1] = ay
        acc[i, 2] = az


def gridstride(x, y):
    i = cuda.grid(1)
    s = cuda.gridsize(1)
    for j in range(i, x.shape[0], s):
        y[j] = x[j] * x[j] + float32(1)


def dot_rows(a, b, o):
    i = cuda.grid(1)
    if i < a.shape[0]:
        s = float32(0)
        for k in range(a.shape[1]):
            s += a[i, k] * b[i, k]
        o[i] = s


def mandelbrot(out, xmin, ymin, dx, dy, maxit):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        cr = xmin + j * dx
        ci = ymin + i * dy
        zr = 0.0
        zi = 0.0
        n = 0
        while n < maxit and zr * zr + zi * zi < 4.0:
            t = zr * zr - zi * zi + cr
            zi = 2.0 * zr * zi + ci
            zr = t
            n += 1
        out[i, j] = n


def stencil(a, b):
    i, j = cuda.grid(2)
    if 0 < i < a.shape[0] - 1 and 0 < j < a.shape[1] - 1:
        b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


def prefix(x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        for k in range(1, x.shape[1]):
            x[i, k] = x[i, k] + x[i, k - 1]


def reduce_shared(x, o):
    s = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    v = float32(0)
    if i < x.shape[0]:
        v = x[i]
    s[t] = v
    cuda.syncthreads()
    n = 128
    while n > 0:
        if t < n:
            s[t] += s[t + n]
        cuda.syncthreads()
        n //= 2
    if t == 0:
        o[cuda.blockIdx.x] = s[0]


def warp_sum(x, o):
    i = cuda.grid(1)
    v = float32(0)
    if i < x.shape[0]:
        v = x[i]
    v += cuda.shfl_down_sync(0xFFFFFFFF, v, 16)
    v += cuda.shfl_down_sync(0xFFFFFFFF, v, 8)
    v += cuda.shfl_down_sync(0xFFFFFFFF, v, 4)
    v += cuda.shfl_down_sync(0xFFFFFFFF, v, 2)
    v += cuda.shfl_down_sync(0xFFFFFFFF, v, 1)
    if cuda.threadIdx.x % 32 == 0:
        o[i // 32] = v


def gather(x, index, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        y[i] = x[index[i]]


def turns(x, o):
    s = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    acc = float32(0)
    for k in range(x.shape[0]):
        v = float32(0)
        if i < x.shape[1]:
            v = x[k, i]
        s[t] = v
        cuda.syncthreads()
        acc += s[cuda.blockDim.x - 1 - t]
        cuda.syncthreads()
    if i < o.shape[0]:
        o[i] = acc


def saxpy_rows(a, x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        for k in range(x.shape[1]):
            y[i, k] = a * x[i, k] + y[i, k]


def scale_rows(x, w, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        for k in range(x.shape[1]):
            y[i, k] = x[i, k] * w[0]


SIGNATURES: dict[str, tuple[Any, Any]] = {
    "conv1d": (conv1d, void(VECTOR, VECTOR, VECTOR)),
    "colsum": (colsum, void(MATRIX, VECTOR)),
    "matmul_naive": (matmul_naive, void(MATRIX, MATRIX, MATRIX)),
    "nbody": (nbody, void(MATRIX, MATRIX, float32)),
    "gridstride": (gridstride, void(VECTOR, VECTOR)),
    "dot_rows": (dot_rows, void(MATRIX, MATRIX, VECTOR)),
    "mandelbrot": (mandelbrot, void(int32[:, ::1], float64, float64, float64, float64, int32)),
    "stencil": (stencil, void(MATRIX, MATRIX)),
    "saxpy": (saxpy, void(float32, VECTOR, VECTOR)),
    "prefix": (prefix, void(MATRIX, VECTOR)),
    "reduce_shared": (reduce_shared, void(VECTOR, VECTOR)),
    "turns": (turns, void(MATRIX, VECTOR)),
    "warp_sum": (warp_sum, void(VECTOR, VECTOR)),
    "gather": (gather, void(VECTOR, int64[::1], VECTOR)),
    "saxpy_rows": (saxpy_rows, void(float32, MATRIX, MATRIX)),
    "scale_rows": (scale_rows, void(MATRIX, VECTOR, MATRIX)),
}


def kernel(name: str) -> Any:
    """The kernel with the text of kernels/*.ptx and the arguments and facts of its source."""
    from dataclasses import replace

    from rewrites import base

    from hybridcc.frontends.numba import compile

    function, signature = SIGNATURES[name]
    return replace(compile(function, signature, "sm_90"), ptx=base(name), entry=name, name=name)


def kernel_mlir(name: str) -> Any:
    """The same with the text of kernels/mlir/*.ptx, and the parameters that numba-cuda-mlir gives it."""
    from dataclasses import replace

    from rewrites_mlir import FACTS, base

    from hybridcc.frontends import memref
    from hybridcc.passes.kernel import ArrayType

    found = kernel(name)
    arguments = tuple(
        replace(a, fields=memref.fields(a.type.ndim)) if isinstance(a.type, ArrayType) else a
        for a in found.arguments
    )
    return replace(found, ptx=base(name), arguments=arguments, facts=FACTS[name])


def examples(name: str) -> tuple[Any, ...]:
    """Launches that a kernel needs where its contract is not in its types: threads to a block, elements to a warp."""
    import numpy as np

    from hybridcc.passes.verify.launch import Launch

    x = np.random.default_rng(1).standard_normal(700, dtype=np.float32)
    match name:
        case "reduce_shared":
            return (Launch((3, 1, 1), (256, 1, 1), (x, np.zeros(3, np.float32))),)
        case "warp_sum":
            return (Launch((3, 1, 1), (64, 1, 1), (x[:150].copy(), np.zeros(6, np.float32))),)
    return ()
