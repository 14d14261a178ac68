// Integer square roots, bit by bit from the top; no multiplication and no division.
//
// qdbg-needs: A
//
// qdbg: launch square_root<<<1, 8>>>(x = u32[0, 1, 2, 15, 16, 99980001, 4294836225, 4294967295], root = u32[8],
// qdbg:                              rest = u32[8])
// qdbg: expect root = u32[0, 1, 1, 3, 4, 9999, 65535, 65535]
// qdbg: expect rest = u32[0, 0, 1, 6, 0, 0, 0, 131070]

__global__ void square_root(const unsigned *x, unsigned *root, unsigned *rest)
{
    unsigned v = x[threadIdx.x], r = 0;
#pragma unroll 1
    for (unsigned bit = 1u << 30; bit; bit >>= 2) {
        unsigned candidate = r + bit;
        r >>= 1;
        if (v >= candidate) {
            v -= candidate;
            r += bit;
        }
    }
    root[threadIdx.x] = r;
    rest[threadIdx.x] = v;
}
