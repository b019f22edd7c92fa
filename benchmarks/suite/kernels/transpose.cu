#define TILE 32
#define ROWS 8

extern "C" __global__ void transpose(const float* __restrict__ a, float* __restrict__ out, int height, int width) {
    __shared__ float tile[TILE][TILE + 1];
    int tx = threadIdx.x, ty = threadIdx.y;
    int x = blockIdx.x * TILE + tx, y = blockIdx.y * TILE + ty;
    for (int k = 0; k < TILE; k += ROWS)
        if (x < width && y + k < height) tile[ty + k][tx] = a[(y + k) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE + tx;
    y = blockIdx.x * TILE + ty;
    for (int k = 0; k < TILE; k += ROWS)
        if (x < height && y + k < width) out[(y + k) * height + x] = tile[tx][ty + k];
}
