extern "C" __global__ void nbody(const float4* __restrict__ bodies, float* __restrict__ acceleration, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float4 own = bodies[i];
        float ax = 0, ay = 0, az = 0;
        for (int j = 0; j < n; j++) {
            float4 other = bodies[j];
            float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
            float square = dx * dx + dy * dy + dz * dz + 0.01f;
            float pull = other.w / (square * sqrtf(square));
            ax += dx * pull;
            ay += dy * pull;
            az += dz * pull;
        }
        acceleration[3 * i] = ax;
        acceleration[3 * i + 1] = ay;
        acceleration[3 * i + 2] = az;
    }
}
