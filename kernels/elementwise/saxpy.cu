// y = alpha * x + y over a grid of four blocks, in integers.
//
// The blocks run one after another; the last one is only partly in range.
//
// qdbg-needs: A
//
// qdbg: launch saxpy<<<4, 4>>>(n = 14, alpha = 3, x = i32[14] = iota,
// qdbg:                        y = i32[5, 4, 3, 2, 1, 0, -1, -2, -3, -4, -5, -6, -7, -8])
// qdbg: expect y = i32[5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31]
//
// qdbg: launch saxpy<<<1, 4>>>(n = 4, alpha = -7, x = i32[1000, -1000, 46341, 0], y = i32[1, 1, 1, 1])
// qdbg: expect y = i32[-6999, 7001, -324386, 1]

__global__ void saxpy(int n, int alpha, const int *x, int *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = alpha * x[i] + y[i];
}
