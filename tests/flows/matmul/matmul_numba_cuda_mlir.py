from numba_cuda_mlir import cuda
from numba_cuda_mlir.numba_cuda.types import float32

import hybridcc


@hybridcc.jit("void(float32[:, ::1], float32[:, ::1], float32[:, ::1], int64)")
def matmul(a, b, c, n):
    j, i = cuda.grid(2)
    if i < n and j < n:
        t = float32(0)
        for k in range(n):
            t = cuda.fma(a[i, k], b[k, j], t)
        c[i, j] = t
