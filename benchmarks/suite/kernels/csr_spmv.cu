extern "C" __global__ void csr_spmv(const int* __restrict__ begin, const int* __restrict__ columns,
                                    const float* __restrict__ values, const float* __restrict__ x,
                                    float* __restrict__ y, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        float total = 0;
        for (int k = begin[row]; k < begin[row + 1]; k++) total += values[k] * x[columns[k]];
        y[row] = total;
    }
}
