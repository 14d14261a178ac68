// A histogram in two steps: every block counts in shared memory, then adds its counts to the global ones.
//
// qdbg-needs: A C G J
//
// qdbg: launch histogram<<<2, 64>>>(x = u8[150] = random(91), bins = u32[8], n = 150)
// qdbg: expect bins = u32[18, 16, 18, 18, 24, 22, 21, 13]

#define BINS 8

__global__ void histogram(const unsigned char *x, unsigned *bins, int n)
{
    __shared__ unsigned local[BINS];

    if (threadIdx.x < BINS)
        local[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll 1
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[x[i] >> 5], 1);
    __syncthreads();
    if (threadIdx.x < BINS)
        atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}
