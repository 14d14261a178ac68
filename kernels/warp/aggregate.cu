// Warp-aggregated atomics: the lanes that found something send one of them to the counter for all.
//
// The second warp is not full: `__activemask` says which lanes there are.
//
// qdbg-needs: A G K M
//
// qdbg: launch filter<<<1, 40>>>(x = i32[40] = random(71, 0, 100), out = i32[64] = -1, count = i32[2])
// qdbg: expect out = i32[78, 27, 75, 84, 72, 42, 57, 54, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 27, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1]
// qdbg: expect count = i32[8, 1]

// A place in `counter` for each of the lanes in `mask`, in their order.
__device__ int add_aggregated(int *counter, unsigned mask)
{
    int lane = threadIdx.x & 31;
    int leader = __ffs(mask) - 1;
    int start = 0;
    if (lane == leader)
        start = atomicAdd(counter, __popc(mask));
    start = __shfl_sync(mask, start, leader);
    return start + __popc(mask & ((1u << lane) - 1));
}

__global__ void filter(const int *x, int *out, int *count)
{
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    unsigned members = __activemask();
    int v = x[threadIdx.x];
    unsigned wanted = __ballot_sync(members, v % 3 == 0);
    if (wanted >> lane & 1)
        out[32 * warp + add_aggregated(&count[warp], wanted)] = v;
}
