// A reduction in one launch: the block that is the last to finish adds the others' sums up.
//
// qdbg-needs: A C G H J
//
// qdbg: launch total<<<4, 8>>>(x = i32[40] = random(95, -9, 10), n = 40, partial = i32[4], arrived = u32[1],
// qdbg:                        out = i32[1])
// qdbg: expect partial = i32[12, -6, 5, -9]
// qdbg: expect out = i32[2]

__global__ void total(const int *x, int n, volatile int *partial, unsigned *arrived, int *out)
{
    __shared__ int sum;
    __shared__ bool last;

    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
#pragma unroll 1
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&sum, x[i]);
    __syncthreads();
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int all = 0;
#pragma unroll 1
        for (int b = 0; b < gridDim.x; b++)
            all += partial[b];
        *out = all;
    }
}
