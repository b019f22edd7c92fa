extern "C" __global__ void gemv(const double* __restrict__ a, const double* __restrict__ x, double* __restrict__ y,
                                int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        double total = 0;
        for (int column = 0; column < columns; column++) total += a[(size_t)row * columns + column] * x[column];
        y[row] = total;
    }
}
