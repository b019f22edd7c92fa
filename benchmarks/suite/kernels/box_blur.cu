extern "C" __global__ void box_blur(const float* __restrict__ image, float* __restrict__ out, int height, int width,
                                    int radius) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (radius <= x && x < width - radius && radius <= y && y < height - radius) {
        float total = 0;
        for (int dy = -radius; dy <= radius; dy++)
            for (int dx = -radius; dx <= radius; dx++) total += image[(y + dy) * width + x + dx];
        out[y * width + x] = (float)((double)total / ((2 * radius + 1) * (2 * radius + 1)));
    }
}
