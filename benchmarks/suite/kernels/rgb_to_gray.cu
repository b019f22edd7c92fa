extern "C" __global__ void rgb_to_gray(const unsigned char* __restrict__ image, unsigned char* __restrict__ gray,
                                       int height, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        int at = y * width + x;
        int r = image[3 * at], g = image[3 * at + 1], b = image[3 * at + 2];
        gray[at] = (unsigned char)(0.299 * r + 0.587 * g + 0.114 * b + 0.5);
    }
}
