extern "C" __global__ void covariance(const double* __restrict__ data, const double* __restrict__ means,
                                      double* __restrict__ out, int samples, int n) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < n && j < n) {
        double total = 0;
        for (int k = 0; k < samples; k++) total += (data[k * n + i] - means[i]) * (data[k * n + j] - means[j]);
        out[i * n + j] = total / (samples - 1);
    }
}
