// All-reduce by a butterfly: after five exchanges every lane knows sum, minimum and parity of the warp.
//
// qdbg-needs: A K
//
// qdbg: launch butterfly<<<1, 32>>>(x = i32[32] = random(51, -1000, 1000), sum = i32[32], low = i32[32],
// qdbg:                             parity = u32[32])
// qdbg: expect sum = i32[1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888, 1888]
// qdbg: expect low = i32[-910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910, -910]
// qdbg: expect parity = u32[4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258, 4294967258]

#define FULL 0xffffffffu

__global__ void butterfly(const int *x, int *sum, int *low, unsigned *parity)
{
    int i = threadIdx.x;
    int s = x[i], m = s;
    unsigned p = s;
#pragma unroll 1
    for (int mask = 16; mask > 0; mask >>= 1) {
        s += __shfl_xor_sync(FULL, s, mask);
        m = min(m, __shfl_xor_sync(FULL, m, mask));
        p ^= __shfl_xor_sync(FULL, p, mask);
    }
    sum[i] = s;
    low[i] = m;
    parity[i] = p;
}
