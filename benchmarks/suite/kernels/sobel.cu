// In Numba an int64 times a float32 is a float64: so it is here.
extern "C" __global__ void sobel(const float* __restrict__ image, float* __restrict__ out, int height, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (0 < x && x < width - 1 && 0 < y && y < height - 1) {
        const float *above = image + (y - 1) * width + x, *here = above + width, *below = here + width;
        double gx = above[1] + 2.0 * here[1] + below[1] - above[-1] - 2.0 * here[-1] - below[-1];
        double gy = below[-1] + 2.0 * below[0] + below[1] - above[-1] - 2.0 * above[0] - above[1];
        out[y * width + x] = (float)sqrt(gx * gx + gy * gy);
    }
}
