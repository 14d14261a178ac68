// Sparse matrix times vector in CSR form: one row a thread, rows of very different lengths.
//
// qdbg-needs: A
//
// qdbg: launch spmv<<<1, 5>>>(start = i32[0, 2, 2, 7, 8, 10], column = i32[0, 3, 0, 1, 2, 3, 4, 4, 1, 2],
// qdbg:                       value = i32[5, -2, 1, 1, 1, 1, 1, 9, 3, -4], x = i32[2, 3, 5, 7, 11],
// qdbg:                       y = i32[5], rows = 5)
// qdbg: expect y = i32[-4, 0, 28, 99, -11]

__global__ void spmv(const int *start, const int *column, const int *value, const int *x, int *y, int rows)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    int sum = 0;
#pragma unroll 1
    for (int k = start[row]; k < start[row + 1]; k++)
        sum += value[k] * x[column[k]];
    y[row] = sum;
}
