__device__ unsigned next(unsigned state) {
    state ^= state << 13;
    state ^= state >> 17;
    return state ^ state << 5;
}

extern "C" __global__ void monte_carlo_pi(const unsigned* __restrict__ seeds, int* __restrict__ hits, int n,
                                          int points) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned state = seeds[i];
        int found = 0;
        for (int k = 0; k < points; k++) {
            state = next(state);
            float x = (float)state * 2.3283064365386963e-10f;
            state = next(state);
            float y = (float)state * 2.3283064365386963e-10f;
            if (x * x + y * y < 1.0f) found++;
        }
        hits[i] = found;
    }
}
