// Maximum of a block by a tree in shared memory, one result a block.
//
// Half of the active lanes drop out at every round. The barrier stands outside of the `if`, where
// every thread reaches it.
//
// qdbg-needs: A C
//
// qdbg: launch block_max<<<2, 8>>>(x = i32[3, 9, -4, 12, 5, 5, 0, 7, -8, -3, -90, -7, -2, -41, -6],
// qdbg:                            out = i32[2], n = 15)
// qdbg: expect out = i32[12, -2]

__global__ void block_max(const int *x, int *out, int n)
{
    __shared__ int s[8];

    int tid = threadIdx.x;
    int i = blockIdx.x * blockDim.x + tid;
    s[tid] = i < n ? x[i] : (int)0x80000000;
    __syncthreads();

#pragma unroll 1
    for (int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
        if (tid < stride)
            s[tid] = max(s[tid], s[tid + stride]);
        __syncthreads();
    }

    if (tid == 0)
        out[blockIdx.x] = s[0];
}
