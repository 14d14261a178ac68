// Pi in double precision by the midpoint rule; every thread takes its share of the strips.
//
// qdbg-needs: A C P
//
// qdbg: launch pi<<<1, 8>>>(out = f64[1], partial = f64[8], strips = 64)
// qdbg: expect out = f64[3.1416129986418486]
// qdbg: expect partial = f64[25.994901970606204, 25.75719579395551, 25.514817284695642, 25.268072081815816, 25.017267037745775, 24.762709396856774, 24.504705978404633, 24.24356236899797]

__global__ void pi(double *out, double *partial, int strips)
{
    __shared__ double s[8];

    double width = 1.0 / strips, sum = 0.0;
#pragma unroll 1
    for (int k = threadIdx.x; k < strips; k += blockDim.x) {
        double x = (k + 0.5) * width;
        sum += 4.0 / fma(x, x, 1.0);
    }
    s[threadIdx.x] = partial[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        double all = 0.0;
#pragma unroll 1
        for (int t = 0; t < blockDim.x; t++)
            all += s[t];
        *out = all * width;
    }
}
