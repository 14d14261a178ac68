// Morton codes: the bits of x and y interleaved, and taken apart again.
//
// qdbg-needs: A
//
// qdbg: launch morton<<<1, (4, 2)>>>(code = u32[8], x = u32[8], y = u32[8], step = 9157)
// qdbg: expect code = u32[134914082, 202371123, 404742246, 474984567, 539656328, 607113369, 809484492, 879726813]
// qdbg: expect x = u32[0, 9157, 18314, 27471, 0, 9157, 18314, 27471]
// qdbg: expect y = u32[9157, 9157, 9157, 9157, 18314, 18314, 18314, 18314]

__device__ unsigned spread(unsigned v)
{
    v = (v | v << 8) & 0x00ff00ffu;
    v = (v | v << 4) & 0x0f0f0f0fu;
    v = (v | v << 2) & 0x33333333u;
    return (v | v << 1) & 0x55555555u;
}

__device__ unsigned gather(unsigned v)
{
    v &= 0x55555555u;
    v = (v | v >> 1) & 0x33333333u;
    v = (v | v >> 2) & 0x0f0f0f0fu;
    v = (v | v >> 4) & 0x00ff00ffu;
    return (v | v >> 8) & 0x0000ffffu;
}

__global__ void morton(unsigned *code, unsigned *x, unsigned *y, unsigned step)
{
    int i = threadIdx.y * blockDim.x + threadIdx.x;
    unsigned c = spread(step * threadIdx.x & 0xffff) | spread(step * (threadIdx.y + 1) & 0xffff) << 1;
    code[i] = c;
    x[i] = gather(c);
    y[i] = gather(c >> 1);
}
