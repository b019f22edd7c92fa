extern "C" __global__ void pagerank_step(const int* __restrict__ begin, const int* __restrict__ links,
                                         const int* __restrict__ degree, const double* __restrict__ rank,
                                         double* __restrict__ fresh, int n, double damping) {
    int page = blockIdx.x * blockDim.x + threadIdx.x;
    if (page < n) {
        double total = 0;
        for (int k = begin[page]; k < begin[page + 1]; k++) {
            int source = links[k];
            total += rank[source] / degree[source];
        }
        fresh[page] = (1.0 - damping) / n + damping * total;
    }
}
