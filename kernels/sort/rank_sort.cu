// Rank sort: every thread counts the elements that come before its own and stores it there.
//
// qdbg-needs: A
//
// qdbg: launch rank_sort<<<1, 8>>>(in = i32[4, 1, 4, -3, 2147483647, 0, -2147483648, 4], out = i32[8], n = 8)
// qdbg: expect out = i32[-2147483648, -3, 0, 1, 4, 4, 4, 2147483647]

__global__ void rank_sort(const int *in, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;

    int mine = in[i];
    int rank = 0;
#pragma unroll 1
    for (int j = 0; j < n; j++) {
        if (in[j] < mine || (in[j] == mine && j < i))
            rank++;
    }
    out[rank] = mine;
}
