// Connected components: every edge pulls the labels of its ends down to the smaller one until none moves.
//
// qdbg-needs: A C G S
//
// qdbg: launch components<<<1, 6>>>(from = i32[0, 1, 3, 6, 7, 5], to = i32[2, 2, 4, 7, 8, 3],
// qdbg:                             label = i32[9] = iota, edges = 6)
// qdbg: expect label = i32[0, 0, 0, 3, 3, 3, 6, 6, 6]

__global__ void components(const int *from, const int *to, int *label, int edges)
{
    int e = threadIdx.x;
    int a = from[e], b = to[e];
    int moved;
    do {
        int la = label[a], lb = label[b];
        __syncthreads();
        moved = 0;
        if (la != lb) {
            atomicMin(&label[la > lb ? a : b], min(la, lb));
            moved = 1;
        }
        moved = __syncthreads_or(moved);
    } while (moved);
}
