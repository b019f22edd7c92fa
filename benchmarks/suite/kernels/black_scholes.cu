__device__ double normal(double d) {
    double k = 1.0 / (1.0 + 0.2316419 * fabs(d));
    double series = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))));
    double tail = 0.3989422804014327 * exp(-0.5 * d * d) * series;
    return d > 0 ? 1.0 - tail : tail;
}

extern "C" __global__ void black_scholes(double* __restrict__ call, double* __restrict__ put,
                                         const double* __restrict__ spot, const double* __restrict__ strike,
                                         const double* __restrict__ years, int n, double rate, double volatility) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double s = spot[i], x = strike[i], t = years[i];
    double root = sqrt(t);
    double d1 = (log(s / x) + (rate + 0.5 * volatility * volatility) * t) / (volatility * root);
    double d2 = d1 - volatility * root;
    double cnd1 = normal(d1), cnd2 = normal(d2);
    double discount = exp(-rate * t);
    call[i] = s * cnd1 - x * discount * cnd2;
    put[i] = x * discount * (1.0 - cnd2) - s * (1.0 - cnd1);
}
