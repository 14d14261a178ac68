// Union-find without locks: the larger root is hung below the smaller one by `atomicCAS`, then every
// vertex looks up its root.
//
// How the trees look depends on who comes first; the roots do not.
//
// qdbg-needs: A C G
//
// qdbg: launch union_find<<<1, 8>>>(a = i32[7, 3, 5, 1, 6, 0, 0, 0], b = i32[2, 5, 2, 4, 6, 0, 0, 0],
// qdbg:                             parent = i32[8] = iota, root = i32[8])
// qdbg: expect root = i32[0, 1, 2, 2, 1, 2, 6, 2]

__device__ int find_root(const volatile int *parent, int v)
{
#pragma unroll 1
    while (parent[v] != v)
        v = parent[v];
    return v;
}

__global__ void union_find(const int *a, const int *b, int *parent, int *root)
{
    int x = find_root(parent, a[threadIdx.x]);
    int y = find_root(parent, b[threadIdx.x]);
#pragma unroll 1
    while (x != y) {
        int high = max(x, y), low = min(x, y);
        int seen = atomicCAS(&parent[high], high, low);
        if (seen == high)
            break;
        x = find_root(parent, seen);
        y = find_root(parent, low);
    }
    __syncthreads();
    root[threadIdx.x] = find_root(parent, threadIdx.x);
}
