// Integer matrix product C = A * B, one element of C a thread, row-major.
//
// qdbg-needs: A
//
// qdbg: launch matmul<<<1, (2, 2)>>>(a = i32[1, 2, 3, 4], b = i32[5, 6, 7, 8], c = i32[4], m = 2,
// qdbg:                              n = 2, k = 2)
// qdbg: expect c = i32[19, 22, 43, 50]
//
// qdbg: launch matmul<<<1, (4, 4)>>>(a = i32[12] = iota,
// qdbg:                              b = i32[2, 0, -1, 1, 3, 1, -2, 4, 0, 5, 7, -6], c = i32[16],
// qdbg:                              m = 4, n = 4, k = 3)
// qdbg: expect c = i32[3, 11, 12, -8, 18, 29, 24, -11, 33, 47, 36, -14, 48, 65, 48, -17]

__global__ void matmul(const int *a, const int *b, int *c, int m, int n, int k)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || col >= n)
        return;

    int sum = 0;
#pragma unroll 1
    for (int i = 0; i < k; i++)
        sum += a[row * k + i] * b[i * n + col];
    c[row * n + col] = sum;
}
