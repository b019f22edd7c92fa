extern "C" __global__ void matmul_naive(const float* __restrict__ a, const float* __restrict__ b,
                                        float* __restrict__ c, int m, int n, int k) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < m && j < n) {
        float t = 0;
        for (int l = 0; l < k; l++) t += a[i * k + l] * b[l * n + j];
        c[i * n + j] = t;
    }
}
