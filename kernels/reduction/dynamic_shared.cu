// Minimum, maximum and sum of a block in one piece of dynamic shared memory, cut into three arrays.
//
// qdbg-needs: A C
//
// qdbg: launch statistics<<<1, 16, 192>>>(x = i32[16] = random(3, -50, 50), out = i32[3])
// qdbg: expect out = i32[-50, 28, -119]

__global__ void statistics(const int *x, int *out)
{
    extern __shared__ int s[];
    int n = blockDim.x, tid = threadIdx.x;
    int *low = s, *high = s + n, *sum = s + 2 * n;
    low[tid] = high[tid] = sum[tid] = x[tid];
    __syncthreads();

#pragma unroll 1
    for (int stride = n / 2; stride > 0; stride >>= 1) {
        if (tid < stride) {
            low[tid] = min(low[tid], low[tid + stride]);
            high[tid] = max(high[tid], high[tid + stride]);
            sum[tid] += sum[tid + stride];
        }
        __syncthreads();
    }
    if (tid == 0) {
        out[0] = low[0];
        out[1] = high[0];
        out[2] = sum[0];
    }
}
