// First place of a word in a text of bytes: all threads look, the smallest place wins by `atomicMin`.
//
// qdbg-needs: A G J
//
// qdbg: launch find<<<2, 8>>>(text = u8[97, 98, 114, 97, 99, 97, 100, 97, 98, 114, 97, 99, 97, 100], n = 14,
// qdbg:                       word = u8[99, 97, 100], m = 3, first = i32[1] = 2147483647, count = i32[1])
// qdbg: expect first = i32[4]
// qdbg: expect count = i32[2]

__global__ void find(const char *text, int n, const char *word, int m, int *first, int *count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + m > n)
        return;
#pragma unroll 1
    for (int k = 0; k < m; k++)
        if (text[i + k] != word[k])
            return;
    atomicMin(first, i);
    atomicAdd(count, 1);
}
