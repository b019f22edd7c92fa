extern "C" __global__ void row_variance(const float* __restrict__ data, float* __restrict__ variance, int rows, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows) {
        const float* row = data + (size_t)i * n;
        float total = 0;
        for (int j = 0; j < n; j++) total += row[j];
        float mean = total / (float)n;
        float squares = 0;
        for (int j = 0; j < n; j++) {
            float d = row[j] - mean;
            squares += d * d;
        }
        variance[i] = squares / (float)(n - 1);
    }
}
