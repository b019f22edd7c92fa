extern "C" __global__ void colsum(const float* __restrict__ a, float* __restrict__ y, int rows, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < columns) {
        float s = 0;
        for (int j = 0; j < rows; j++) s += a[(size_t)j * columns + i];
        y[i] = s;
    }
}
