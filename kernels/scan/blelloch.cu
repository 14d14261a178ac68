// Exclusive prefix sum by Blelloch: up the tree and down again, two elements a thread.
//
// qdbg-needs: A C H
//
// qdbg: launch blelloch<<<1, 8, 64>>>(in = i32[3, 1, 7, 0, 4, 1, 6, 3, -2, 5, 5, 8, 0, 9, -4, 1],
// qdbg:                               out = i32[16], n = 16)
// qdbg: expect out = i32[0, 3, 4, 11, 11, 15, 16, 22, 25, 23, 28, 33, 41, 41, 50, 46]

__global__ void blelloch(const int *in, int *out, int n)
{
    extern __shared__ int s[];

    int tid = threadIdx.x;
    s[2 * tid] = in[2 * tid];
    s[2 * tid + 1] = in[2 * tid + 1];
    int offset = 1;
#pragma unroll 1
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (tid < d)
            s[offset * (2 * tid + 2) - 1] += s[offset * (2 * tid + 1) - 1];
        offset <<= 1;
    }
    if (tid == 0)
        s[n - 1] = 0;
#pragma unroll 1
    for (int d = 1; d < n; d <<= 1) {
        offset >>= 1;
        __syncthreads();
        if (tid < d) {
            int left = offset * (2 * tid + 1) - 1, right = offset * (2 * tid + 2) - 1;
            int t = s[left];
            s[left] = s[right];
            s[right] += t;
        }
    }
    __syncthreads();
    out[2 * tid] = s[2 * tid];
    out[2 * tid + 1] = s[2 * tid + 1];
}
