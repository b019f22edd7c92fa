#define NODES 65

extern "C" __global__ void binomial(const float* __restrict__ spot, const float* __restrict__ strike,
                                    float* __restrict__ price, int n, int steps, float up, float chance,
                                    float discount) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float value[NODES];
        float s = spot[i];
        for (int k = 0; k < steps; k++) s = s / up;
        for (int j = 0; j <= steps; j++) {
            value[j] = fmaxf(s - strike[i], 0.0f);
            s = s * up * up;
        }
        for (int level = steps; level > 0; level--)
            for (int j = 0; j < level; j++) value[j] = discount * (chance * value[j + 1] + (1.0f - chance) * value[j]);
        price[i] = value[0];
    }
}
