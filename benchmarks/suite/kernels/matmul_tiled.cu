#define TILE 16

extern "C" __global__ void matmul_tiled(const float* __restrict__ a, const float* __restrict__ b,
                                        float* __restrict__ c, int n) {
    __shared__ float sa[TILE][TILE], sb[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int j = blockIdx.x * blockDim.x + tx, i = blockIdx.y * blockDim.y + ty;
    float total = 0;
    for (int tile = 0; tile < n / TILE; tile++) {
        sa[ty][tx] = a[i * n + tile * TILE + tx];
        sb[ty][tx] = b[(tile * TILE + ty) * n + j];
        __syncthreads();
        for (int k = 0; k < TILE; k++) total += sa[ty][k] * sb[k][tx];
        __syncthreads();
    }
    c[i * n + j] = total;
}
