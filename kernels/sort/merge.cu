// Two sorted arrays merged: each thread finds its element's place by a binary search in the other array.
//
// qdbg-needs: A
//
// qdbg: launch merge<<<1, 12>>>(a = i32[-5, 0, 0, 3, 8, 8, 20], na = 7, b = i32[-9, 0, 4, 8, 30], nb = 5,
// qdbg:                         out = i32[12])
// qdbg: expect out = i32[-9, -5, 0, 0, 0, 3, 4, 8, 8, 8, 20, 30]

// How many elements are below `key`, equal ones included if `upper`.
__device__ int rank_of(const int *sorted, int n, int key, bool upper)
{
    int low = 0;
#pragma unroll 1
    while (low < n) {
        int middle = (low + n) >> 1;
        if (sorted[middle] < key || (upper && sorted[middle] == key))
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

__global__ void merge(const int *a, int na, const int *b, int nb, int *out)
{
    int i = threadIdx.x;
    if (i < na) {
        out[i + rank_of(b, nb, a[i], false)] = a[i];
    } else if (i < na + nb) {
        int j = i - na;
        out[j + rank_of(a, na, b[j], true)] = b[j];
    }
}
