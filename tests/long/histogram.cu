// A histogram of random numbers: each block counts its own in shared memory and adds that to the whole.
//
// qdbg-needs: A C G
//
// qdbg: launch histogram<<<4, 128>>>(bins = u32[16], rounds = 20)
// qdbg: expect bins = u32[642, 584, 570, 599, 805, 836, 738, 576, 584, 597, 667, 634, 583, 572, 582, 671]

#define BINS 16

__global__ void histogram(unsigned *bins, int rounds)
{
    __shared__ unsigned local[BINS];

    if (threadIdx.x < BINS)
        local[threadIdx.x] = 0;
    __syncthreads();
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 1
    for (int r = 0; r < rounds; r++) {
        x = x * 1664525u + 1013904223u;
        atomicAdd(&local[x >> 28], 1);
    }
    __syncthreads();
    if (threadIdx.x < BINS)
        atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}
