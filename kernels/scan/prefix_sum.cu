// Inclusive prefix sum of one block (Hillis and Steele) with two buffers in shared memory.
//
// qdbg-needs: A C
//
// qdbg: launch prefix_sum<<<1, 8>>>(in = i32[3, 1, 4, 1, 5, 9, 2, 6], out = i32[8], n = 8)
// qdbg: expect out = i32[3, 4, 8, 9, 14, 23, 25, 31]
//
// qdbg: launch prefix_sum<<<1, 4>>>(in = i32[-1, -2, -3], out = i32[3], n = 3)
// qdbg: expect out = i32[-1, -3, -6]

__global__ void prefix_sum(const int *in, int *out, int n)
{
    __shared__ int buffer[2][32];

    int tid = threadIdx.x;
    int from = 0;
    buffer[0][tid] = tid < n ? in[tid] : 0;
    __syncthreads();

#pragma unroll 1
    for (int offset = 1; offset < blockDim.x; offset <<= 1) {
        int to = 1 - from;
        int v = buffer[from][tid];
        if (tid >= offset)
            v += buffer[from][tid - offset];
        buffer[to][tid] = v;
        from = to;
        __syncthreads();
    }

    if (tid < n)
        out[tid] = buffer[from][tid];
}
