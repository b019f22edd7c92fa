extern "C" __global__ void mandelbrot(int* __restrict__ counts, int height, int width, int limit) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        double re = x * (3.0 / width) - 2.0, im = y * (2.0 / height) - 1.0;
        double zr = 0, zi = 0;
        int n = 0;
        while (n < limit && zr * zr + zi * zi < 4.0) {
            double next = zr * zr - zi * zi + re;
            zi = 2.0 * zr * zi + im;
            zr = next;
            n++;
        }
        counts[y * width + x] = n;
    }
}
