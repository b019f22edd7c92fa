extern "C" __global__ void byte_count(const unsigned char* __restrict__ text, unsigned char byte,
                                      unsigned long long* count, int n) {
    int found = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        if (text[i] == byte) found++;
    atomicAdd(count, (unsigned long long)found);
}
