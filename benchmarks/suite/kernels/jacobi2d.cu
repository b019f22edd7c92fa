extern "C" __global__ void jacobi2d(const double* __restrict__ old, double* __restrict__ fresh, int n, int m) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= 1 && i < n - 1 && j >= 1 && j < m - 1) {
        int at = i * m + j;
        fresh[at] = 0.25 * (old[at + 1] + old[at - 1] + old[at - m] + old[at + m]);
    }
}
