extern "C" __global__ void __launch_bounds__(256)
matmul(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < n && j < n) {
        float t = 0;
        for (int k = 0; k < n; k++) t = fmaf(a[i * n + k], b[k * n + j], t);
        c[i * n + j] = t;
    }
}
