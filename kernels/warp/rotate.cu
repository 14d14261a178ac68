// Values handed round in groups of eight lanes: a ring, a shift with an edge, a broadcast and a lookup.
//
// qdbg-needs: A K
//
// qdbg: launch rotate<<<1, 32>>>(x = i32[32] = iota, table = i32[32] = random(3, 0, 8), ring = i32[32],
// qdbg:                          up = i32[32], first = i32[32], looked_up = i32[32])
// qdbg: expect ring = i32[1, 2, 3, 4, 5, 6, 7, 0, 9, 10, 11, 12, 13, 14, 15, 8, 17, 18, 19, 20, 21, 22, 23, 16, 25, 26, 27, 28, 29, 30, 31, 24]
// qdbg: expect up = i32[0, 1, 2, 0, 1, 2, 3, 4, 8, 9, 10, 8, 9, 10, 11, 12, 16, 17, 18, 16, 17, 18, 19, 20, 24, 25, 26, 24, 25, 26, 27, 28]
// qdbg: expect first = i32[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16]
// qdbg: expect looked_up = i32[5, 1, 1, 7, 6, 7, 0, 6, 10, 10, 12, 15, 12, 11, 12, 10, 22, 21, 16, 21, 18, 22, 19, 17, 28, 29, 28, 29, 31, 24, 25, 25]

#define FULL 0xffffffffu

__global__ void rotate(const int *x, const int *table, int *ring, int *up, int *first, int *looked_up)
{
    int i = threadIdx.x;
    int v = x[i];
    ring[i] = __shfl_sync(FULL, v, i + 1, 8);
    up[i] = __shfl_up_sync(FULL, v, 3, 8);
    first[i] = __shfl_sync(FULL, v, 0, 16);
    looked_up[i] = __shfl_sync(FULL, v, table[i], 8);
}
