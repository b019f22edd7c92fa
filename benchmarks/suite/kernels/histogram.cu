extern "C" __global__ void histogram(const unsigned char* __restrict__ data, int* counts, int n) {
    __shared__ int local[256];
    int t = threadIdx.x;
    local[t] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += blockDim.x * gridDim.x) atomicAdd(&local[data[i]], 1);
    __syncthreads();
    atomicAdd(&counts[t], local[t]);
}
