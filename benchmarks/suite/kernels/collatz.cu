extern "C" __global__ void collatz(const long long* __restrict__ start, int* __restrict__ steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        long long value = start[i];
        int count = 0;
        while (value > 1) {
            if (value % 2 == 0)
                value /= 2;
            else
                value = 3 * value + 1;
            count++;
        }
        steps[i] = count;
    }
}
