extern "C" __global__ void block_sum(const float* __restrict__ data, float* __restrict__ sums, int size) {
    __shared__ float shared[256];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    shared[t] = i < size ? data[i] : 0.0f;
    __syncthreads();
    for (int n = blockDim.x / 2; n > 0; n /= 2) {
        if (t < n) shared[t] += shared[t + n];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = shared[0];
}
