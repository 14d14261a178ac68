// Stream compaction: the elements above 8 of each block of two warps move to its front.
//
//
// qdbg-needs: A C G M
//
// qdbg: launch compact<<<2, 64>>>(x = i32[128] = random(5, -20, 20), kept = i32[128] = -1, count = i32[2])
// qdbg: expect kept = i32[9, 16, 15, 15, 11, 17, 11, 19, 11, 17, 10, 19, 11, 15, 12, 17, 19, 13, 16, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 18, 15, 19, 17, 14, 18, 11, 14, 19, 14, 12, 13, 17, 18, 10, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1]
// qdbg: expect count = i32[20, 15]

__global__ void compact(const int *x, int *kept, int *count)
{
    __shared__ int before[2];

    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int v = x[i];
    unsigned mask = __ballot_sync(0xffffffffu, v > 8);
    if (lane == 0)
        before[warp] = __popc(mask);
    __syncthreads();

    if (v > 8) {
        int place = __popc(mask & ((1u << lane) - 1)) + (warp == 1 ? before[0] : 0);
        kept[blockIdx.x * blockDim.x + place] = v;
    }
    if (threadIdx.x == 0)
        atomicAdd(&count[blockIdx.x], before[0] + before[1]);
}
