// Sum of a block by shuffles: first within each warp, then the warps' sums within the first warp.
//
// qdbg-needs: A C K
//
// qdbg: launch shuffle_sum<<<2, 96>>>(x = i32[180] = random(7, -100, 100), out = i32[2], n = 180)
// qdbg: expect out = i32[-175, 395]

#define FULL 0xffffffffu

__device__ int warp_sum(int v)
{
    for (int offset = 16; offset > 0; offset >>= 1)
        v += __shfl_down_sync(FULL, v, offset);
    return v;
}

__global__ void shuffle_sum(const int *x, int *out, int n)
{
    __shared__ int partial[32];

    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int v = warp_sum(i < n ? x[i] : 0);
    if (lane == 0)
        partial[warp] = v;
    __syncthreads();

    if (warp == 0) {
        v = lane < (blockDim.x + 31) / 32 ? partial[lane] : 0;
        v = warp_sum(v);
        if (lane == 0)
            out[blockIdx.x] = v;
    }
}
