// All shortest paths by Floyd and Warshall: a matrix of 5 x 5 in shared memory, one entry a thread.
//
// qdbg-needs: A C
//
// qdbg: launch floyd<<<1, (5, 5)>>>(d = i32[0, 3, 8, 9999, -4, 9999, 0, 9999, 1, 7, 9999, 4, 0, 9999, 9999,
// qdbg:                             2, 9999, -5, 0, 9999, 9999, 9999, 9999, 6, 0], n = 5)
// qdbg: expect d = i32[0, 1, -3, 2, -4, 3, 0, -4, 1, -1, 7, 4, 0, 5, 3, 2, -1, -5, 0, -2, 8, 5, 1, 6, 0]

__global__ void floyd(int *d, int n)
{
    __shared__ int s[25];

    int i = threadIdx.y, j = threadIdx.x;
    s[i * n + j] = d[i * n + j];
    __syncthreads();
#pragma unroll 1
    for (int k = 0; k < n; k++) {
        int through = s[i * n + k] + s[k * n + j];
        int direct = s[i * n + j];
        __syncthreads();
        s[i * n + j] = min(direct, through);
        __syncthreads();
    }
    d[i * n + j] = s[i * n + j];
}
