extern "C" __global__ void ell_spmv(const int* __restrict__ columns, const double* __restrict__ values,
                                    const double* __restrict__ x, double* __restrict__ y, int width, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        double total = 0;
        for (int k = 0; k < width; k++) {
            int column = columns[k * rows + row];
            if (column >= 0) total += values[k * rows + row] * x[column];
        }
        y[row] = total;
    }
}
