// Which subset of up to five weights has the given sum? Thread i tries subset i, the smallest one wins.
//
// qdbg-needs: A M
//
// qdbg: launch subset_sum<<<1, 32>>>(weight = i32[15, 4, 8, 23, 42], n = 5, goal = 50, best = u32[1] = 4294967295)
// qdbg: expect best = u32[15]
//
// qdbg: launch subset_sum<<<1, 32>>>(weight = i32[2, 4, 8, 16, 32], n = 5, goal = 7, best = u32[1] = 4294967295)
// qdbg: expect best = u32[4294967295]

__global__ void subset_sum(const int *weight, int n, int goal, unsigned *best)
{
    unsigned subset = threadIdx.x;
    int sum = 0;
#pragma unroll 1
    for (int k = 0; k < n; k++)
        sum += subset >> k & 1 ? weight[k] : 0;
    unsigned hits = __ballot_sync(0xffffffffu, sum == goal);
    if (subset == 0 && hits != 0)
        *best = __ffs(hits) - 1;
}
