// Every kind of 32-bit atomic on global and on shared memory, with results that no order can change.
//
// qdbg-needs: A C G
//
// qdbg: launch logic<<<2, 16>>>(g = i32[7, 0, -1, 2147483647, -2147483648, 0, 100])
// qdbg: expect g = i32[8759, -1, 7, -279, 834, 384, -8722]

__global__ void logic(int *g)
{
    __shared__ int s[3];

    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) {
        s[0] = 0;
        s[1] = 1000;
        s[2] = -1;
    }
    __syncthreads();
    int x = (i * 37 ^ 21) - 300;
    atomicAdd(&g[0], x);
    atomicOr(&g[1], 1 << i);
    atomicAnd(&g[2], ~(x << 3));
    atomicMin(&g[3], x);
    atomicMax(&g[4], x);
    atomicXor(&g[5], x * x);
    atomicMax(&s[0], x);
    atomicMin(&s[1], x);
    atomicAnd(&s[2], x | 0x0f0f);
    __syncthreads();
    if (threadIdx.x == 0)
        atomicSub(&g[6], s[0] + 2 * s[1] + s[2]);
}
