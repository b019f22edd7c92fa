#define LENGTH 24

extern "C" __global__ void levenshtein(const unsigned char* __restrict__ first,
                                       const unsigned char* __restrict__ second, int* __restrict__ distance, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) {
        int row[LENGTH + 1];
        for (int j = 0; j <= LENGTH; j++) row[j] = j;
        for (int i = 0; i < LENGTH; i++) {
            int diagonal = row[0];
            row[0] = i + 1;
            for (int j = 0; j < LENGTH; j++) {
                int cost = diagonal + (first[t * LENGTH + i] != second[t * LENGTH + j]);
                diagonal = row[j + 1];
                row[j + 1] = min(min(row[j + 1] + 1, row[j] + 1), cost);
            }
        }
        distance[t] = row[LENGTH];
    }
}
