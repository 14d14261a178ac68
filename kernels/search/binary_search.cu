// Lower bound in a sorted array: the first position whose element is not below the key.
//
// qdbg-needs: A
//
// qdbg: launch lower_bound<<<1, 8>>>(sorted = i32[-40, -7, 0, 0, 3, 19, 19, 20, 55, 1000], n = 10,
// qdbg:                              keys = i32[-100, -7, 0, 1, 19, 20, 56, 2000], position = i32[8])
// qdbg: expect position = i32[0, 1, 2, 4, 5, 7, 9, 10]

__global__ void lower_bound(const int *sorted, int n, const int *keys, int *position)
{
    int key = keys[threadIdx.x];
    int lo = 0, hi = n;
#pragma unroll 1
    while (lo < hi) {
        int mid = (lo + hi) >> 1;
        if (sorted[mid] < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    position[threadIdx.x] = lo;
}
