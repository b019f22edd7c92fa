extern "C" __global__ void heat3d(const float* __restrict__ old, float* __restrict__ fresh, int depth, int height,
                                  int width, float rate) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int plane = height * width;
    if (0 < x && x < width - 1 && 0 < y && y < height - 1)
        for (int z = 1; z < depth - 1; z++) {
            int at = z * plane + y * width + x;
            float c = old[at];
            float around = old[at - plane] + old[at + plane] + old[at - width] + old[at + width] + old[at - 1] + old[at + 1];
            fresh[at] = (float)(c + rate * (around - 6.0 * c));
        }
}
