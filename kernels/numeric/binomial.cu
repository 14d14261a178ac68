// Binomial coefficients: a row of Pascal's triangle in shared memory, a step a barrier.
//
// qdbg-needs: A C
//
// qdbg: launch binomial<<<1, 13>>>(row = u32[13], n = 12)
// qdbg: expect row = u32[1, 12, 66, 220, 495, 792, 924, 792, 495, 220, 66, 12, 1]

__global__ void binomial(unsigned *row, int n)
{
    __shared__ unsigned s[32];

    int k = threadIdx.x;
    s[k] = k == 0;
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        unsigned left = k > 0 ? s[k - 1] : 0;
        __syncthreads();
        s[k] += left;
        __syncthreads();
    }
    row[k] = s[k];
}
