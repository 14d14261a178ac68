// Segmented prefix maximum: the scan starts anew wherever a flag is set.
//
// qdbg-needs: A C
//
// qdbg: launch segmented<<<1, 12>>>(x = i32[3, 9, 2, 4, 4, 1, 8, -5, -7, -6, 2, 0],
// qdbg:                             head = i32[1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1], out = i32[12])
// qdbg: expect out = i32[3, 9, 9, 4, 4, 4, 8, -5, -5, -5, 2, 0]

__global__ void segmented(const int *x, const int *head, int *out)
{
    __shared__ int value[32];
    __shared__ int flag[32];

    int tid = threadIdx.x;
    int v = x[tid], f = head[tid];
    value[tid] = v;
    flag[tid] = f;
    __syncthreads();
#pragma unroll 1
    for (int offset = 1; offset < blockDim.x; offset <<= 1) {
        int other = v, stop = f;
        if (tid >= offset) {
            other = value[tid - offset];
            stop = flag[tid - offset];
        }
        __syncthreads();
        if (!f)
            v = max(v, other);
        f |= stop;
        value[tid] = v;
        flag[tid] = f;
        __syncthreads();
    }
    out[tid] = v;
}
