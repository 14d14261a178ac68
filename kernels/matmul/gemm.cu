// C = alpha * A * B + beta * C with tiles in shared memory, in single precision.
//
// qdbg-needs: A B C
//
// qdbg: launch gemm<<<(2, 1), (4, 4)>>>(m = 3, n = 6, k = 5, alpha = 1.5, a = f32[15] = random(111),
// qdbg:                                 b = f32[30] = random(112), beta = -0.5, c = f32[18] = random(113))
// qdbg: expect c = f32[0.4667019, 0.9712728, -0.2664077, -0.20890056, 1.6319292, -0.0821292, 1.8415568, -2.0964193, -2.583549, -0.7762965, 1.2063818, 0.47327146, 0.46571445, -1.5711211, -0.735849, 0.64994276, 0.16308464, 0.23331715]

#define TILE 4

__global__ void gemm(int m, int n, int k, float alpha, const float *a, const float *b, float beta, float *c)
{
    __shared__ float ta[TILE][TILE], tb[TILE][TILE];

    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    float sum = 0.0f;
#pragma unroll 1
    for (int t = 0; t < k; t += TILE) {
        ta[y][x] = row < m && t + x < k ? a[row * k + t + x] : 0.0f;
        tb[y][x] = t + y < k && col < n ? b[(t + y) * n + col] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; i++)
            sum = fmaf(ta[y][i], tb[i][x], sum);
        __syncthreads();
    }
    if (row < m && col < n)
        c[row * n + col] = fmaf(alpha, sum, beta * c[row * n + col]);
}
