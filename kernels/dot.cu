// Dot product of two integer vectors by one block.
//
// Every thread strides over the vectors and keeps a private sum, so with n = 3 and four threads the
// last thread never enters the loop: the lanes have different trip counts. The private sums meet in
// shared memory behind a barrier and thread 0 adds them up.
//
// qdbg-needs: A C
//
// qdbg: launch dot<<<1, 4>>>(a = i32[1, 2, 3], b = i32[4, 5, 6], out = i32[1], n = 3)
// qdbg: expect out = i32[32]
//
// qdbg: launch dot<<<1, 4>>>(a = i32[3, -1, 4, -1, 5, -9, 2, -6, 5, -3],
// qdbg:                      b = i32[2, 7, -1, 8, 2, 8, 1, 8, 2, 8], out = i32[1], n = 10)
// qdbg: expect out = i32[-135]

__global__ void dot(const int *a, const int *b, int *out, int n)
{
    __shared__ int partial[32];

    int acc = 0;
#pragma unroll 1
    for (int k = threadIdx.x; k < n; k += blockDim.x)
        acc += a[k] * b[k];
    partial[threadIdx.x] = acc;
    __syncthreads();

    if (threadIdx.x == 0) {
        int sum = 0;
#pragma unroll 1
        for (int t = 0; t < blockDim.x; t++)
            sum += partial[t];
        *out = sum;
    }
}
