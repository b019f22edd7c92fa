extern "C" __global__ void block_scan(const int* __restrict__ data, int* __restrict__ out, int n) {
    __shared__ int shared[2][256];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t, here = 0;
    shared[here][t] = i < n ? data[i] : 0;
    __syncthreads();
    for (int offset = 1; offset < blockDim.x; offset *= 2) {
        int there = 1 - here;
        if (t >= offset)
            shared[there][t] = shared[here][t] + shared[here][t - offset];
        else
            shared[there][t] = shared[here][t];
        __syncthreads();
        here = there;
    }
    if (i < n) out[i] = shared[here][t];
}
