extern "C" __global__ void conv1d(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
                                  int n, int taps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float s = 0;
        for (int k = 0; k < taps; k++) s += x[i + k] * w[k];
        y[i] = s;
    }
}
