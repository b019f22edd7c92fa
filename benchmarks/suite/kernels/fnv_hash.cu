extern "C" __global__ void fnv_hash(const unsigned char* __restrict__ keys, unsigned* __restrict__ hashes, int n,
                                    int length) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned h = 2166136261u;
        for (int k = 0; k < length; k++) h = (h ^ keys[(size_t)i * length + k]) * 16777619u;
        hashes[i] = h;
    }
}
