// Three-operand logic, as ciphers and full adders use it: choose, majority, parity; one `lop3` each.
//
// qdbg-needs: A M
//
// qdbg: launch logic3<<<1, 4>>>(a = u32[4] = random(41), b = u32[4] = random(42), c = u32[4] = random(43),
// qdbg:                         choose = u32[4], majority = u32[4], parity = u32[4], rest = u32[4])
// qdbg: expect choose = u32[1802464897, 3059925763, 290003558, 199222260]
// qdbg: expect majority = u32[2875977609, 3127034187, 2502515267, 1248521119]
// qdbg: expect parity = u32[1839155284, 108805892, 734967220, 396166752]
// qdbg: expect rest = u32[2529212350, 1770336507, 3325480283, 3965761823]

__device__ unsigned lop3(unsigned a, unsigned b, unsigned c)
{
#ifdef __CUDA_ARCH__
    unsigned d;
    asm("lop3.b32 %0, %1, %2, %3, 0x2d;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
#else
    return a ^ (b | ~c);
#endif
}

__global__ void logic3(const unsigned *a, const unsigned *b, const unsigned *c, unsigned *choose,
                       unsigned *majority, unsigned *parity, unsigned *rest)
{
    int i = threadIdx.x;
    unsigned x = a[i], y = b[i], z = c[i];
    choose[i] = (x & y) | (~x & z);
    majority[i] = (x & y) | (x & z) | (y & z);
    parity[i] = x ^ y ^ z;
    rest[i] = lop3(x, y, z);
}
