extern "C" __global__ void bfs_step(const int* __restrict__ begin, const int* __restrict__ edges,
                                    const int* __restrict__ level, int* __restrict__ fresh, int n, int current) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v < n) {
        int found = level[v];
        if (found < 0)
            for (int k = begin[v]; k < begin[v + 1]; k++)
                if (level[edges[k]] == current) {
                    found = current + 1;
                    break;
                }
        fresh[v] = found;
    }
}
