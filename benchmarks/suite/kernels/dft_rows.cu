extern "C" __global__ void dft_rows(const float* __restrict__ signal, const float* __restrict__ cosines,
                                    const float* __restrict__ sines, float* __restrict__ real,
                                    float* __restrict__ imaginary, int n) {
    int k = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (k < n) {
        float re = 0, im = 0;
        for (int t = 0; t < n; t++) {
            int at = (k * t) % n;
            re += signal[row * n + t] * cosines[at];
            im -= signal[row * n + t] * sines[at];
        }
        real[row * n + k] = re;
        imaginary[row * n + k] = im;
    }
}
