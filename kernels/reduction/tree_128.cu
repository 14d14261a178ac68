// Sum of a block of four warps by a tree in shared memory, with addressing that stays dense.
//
// With more than one warp the barrier is more than a formality: warps run at their own speed.
//
// qdbg-needs: A C
//
// qdbg: launch tree_sum<<<2, 128>>>(x = i32[200] = iota, out = i32[2], n = 200)
// qdbg: expect out = i32[8128, 11772]

#define THREADS 128

__global__ void tree_sum(const int *x, int *out, int n)
{
    __shared__ int s[THREADS];

    int tid = threadIdx.x;
    int i = blockIdx.x * THREADS + tid;
    s[tid] = i < n ? x[i] : 0;
    __syncthreads();

#pragma unroll 1
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            s[tid] += s[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        out[blockIdx.x] = s[0];
}
