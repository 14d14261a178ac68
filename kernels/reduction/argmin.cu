// Where is the minimum? Value and index packed into 64 bits, so that one comparison decides both.
//
// qdbg-needs: A C D L
//
// qdbg: launch argmin<<<1, 16>>>(x = i32[9, 4, -3, 17, 25, -3, 8, 0, -2, 6, 1, 1, 40, -3, 5, 2],
// qdbg:                          value = i32[1], index = i32[1])
// qdbg: expect value = i32[-3]
// qdbg: expect index = i32[2]

__global__ void argmin(const int *x, int *value, int *index)
{
    __shared__ long long s[16];

    int tid = threadIdx.x;
    s[tid] = ((long long)x[tid] << 32) | tid;
    __syncthreads();
#pragma unroll 1
    for (int stride = 8; stride > 0; stride >>= 1) {
        if (tid < stride && s[tid + stride] < s[tid])
            s[tid] = s[tid + stride];
        __syncthreads();
    }
    if (tid == 0) {
        *value = (int)(s[0] >> 32);
        *index = (int)s[0];
    }
}
