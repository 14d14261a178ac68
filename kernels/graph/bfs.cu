// Breadth-first search: level after level, every vertex of the frontier reaches for its neighbours.
//
// The graph is in CSR form. Two threads may reach a vertex at once; `atomicCAS` lets one of them win.
//
// qdbg-needs: A C G
//
// qdbg: launch bfs<<<1, 8>>>(start = i32[0, 2, 5, 7, 9, 12, 13, 14, 14],
// qdbg:                      edge = i32[1, 2, 0, 3, 4, 0, 4, 1, 5, 1, 2, 5, 3, 5], level = i32[8] = -1,
// qdbg:                      source = 0)
// qdbg: expect level = i32[0, 1, 1, 2, 2, 3, -1, -1]

__global__ void bfs(const int *start, const int *edge, int *level, int source)
{
    __shared__ int more;

    int v = threadIdx.x;
    if (v == source)
        level[v] = 0;
    int depth = 0;
    do {
        __syncthreads();
        if (v == 0)
            more = 0;
        bool in_frontier = level[v] == depth;
        __syncthreads();
        if (in_frontier) {
#pragma unroll 1
            for (int k = start[v]; k < start[v + 1]; k++)
                if (atomicCAS(&level[edge[k]], -1, depth + 1) == -1)
                    atomicOr(&more, 1);
        }
        depth++;
        __syncthreads();
    } while (more);
}
