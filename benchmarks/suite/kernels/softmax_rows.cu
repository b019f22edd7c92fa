#define THREADS 128

extern "C" __global__ void softmax_rows(const float* __restrict__ x, float* __restrict__ out, int rows, int n) {
    __shared__ float shared[THREADS];
    if (blockIdx.x >= rows) return;
    int t = threadIdx.x;
    const float* in = x + (size_t)blockIdx.x * n;
    float* to = out + (size_t)blockIdx.x * n;
    float largest = -__int_as_float(0x7f800000);
    for (int j = t; j < n; j += THREADS) largest = fmaxf(largest, in[j]);
    shared[t] = largest;
    __syncthreads();
    for (int step = THREADS / 2; step > 0; step /= 2) {
        if (t < step) shared[t] = fmaxf(shared[t], shared[t + step]);
        __syncthreads();
    }
    largest = shared[0];
    __syncthreads();
    float total = 0;
    for (int j = t; j < n; j += THREADS) {
        float e = expf(in[j] - largest);
        to[j] = e;
        total += e;
    }
    shared[t] = total;
    __syncthreads();
    for (int step = THREADS / 2; step > 0; step /= 2) {
        if (t < step) shared[t] += shared[t + step];
        __syncthreads();
    }
    total = shared[0];
    for (int j = t; j < n; j += THREADS) to[j] /= total;
}
