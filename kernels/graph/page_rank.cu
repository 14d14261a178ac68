// Three rounds of page rank in integers: every vertex shares its rank among its links by atomics.
//
// The grid is one block; ranks are in units of 1 / 4096.
//
// qdbg-needs: A C E G M
//
// qdbg: launch page_rank<<<1, 4>>>(start = i32[0, 2, 3, 5, 6], link = i32[1, 2, 2, 0, 3, 0],
// qdbg:                            rank = i32[4] = 1024, rounds = 3)
// qdbg: expect rank = i32[1339, 687, 1339, 687]

__global__ void page_rank(const int *start, const int *link, int *rank, int rounds)
{
    __shared__ int next[4];

    int v = threadIdx.x;
    int degree = start[v + 1] - start[v];
#pragma unroll 1
    for (int r = 0; r < rounds; r++) {
        next[v] = 150;
        __syncthreads();
        int share = rank[v] * 85 / 100 / degree;
#pragma unroll 1
        for (int k = start[v]; k < start[v + 1]; k++)
            atomicAdd(&next[link[k]], share);
        __syncthreads();
        rank[v] = next[v];
        __syncthreads();
    }
}
