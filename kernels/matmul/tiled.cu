// Integer matrix product with tiles in shared memory: the kernel that every course comes to.
//
// The matrices are 6 x 6 and the tiles 4 x 4, so tiles at the edge are filled up with zeros.
//
// qdbg-needs: A C
//
// qdbg: launch tiled<<<(2, 2), (4, 4)>>>(a = i32[36] = iota, b = i32[36] = random(2, -5, 6), c = i32[36],
// qdbg:                                  n = 6)
// qdbg: expect c = i32[0, 45, 5, 8, 55, -26, 12, 135, 17, 44, 163, -56, 24, 225, 29, 80, 271, -86, 36, 315, 41, 116, 379, -116, 48, 405, 53, 152, 487, -146, 60, 495, 65, 188, 595, -176]

#define TILE 4

__global__ void tiled(const int *a, const int *b, int *c, int n)
{
    __shared__ int ta[TILE][TILE], tb[TILE][TILE];

    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    int sum = 0;
#pragma unroll 1
    for (int t = 0; t < n; t += TILE) {
        ta[y][x] = row < n && t + x < n ? a[row * n + t + x] : 0;
        tb[y][x] = t + y < n && col < n ? b[(t + y) * n + col] : 0;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; k++)
            sum += ta[y][k] * tb[k][x];
        __syncthreads();
    }
    if (row < n && col < n)
        c[row * n + col] = sum;
}
