// Number of set bits, shifted out one after another until no bit is left.
//
// A lane leaves the loop when its highest set bit is gone. (Kernighan's `v &= v - 1` is not used: the
// compiler knows that loop and replaces it by one instruction.)
//
// qdbg-needs: A
//
// qdbg: launch popcount<<<1, 6>>>(x = u32[0, 1, 255, 2048, 43690, 65535], out = i32[6])
// qdbg: expect out = i32[0, 1, 8, 1, 8, 16]

__global__ void popcount(const unsigned *x, int *out)
{
    unsigned v = x[threadIdx.x];
    int count = 0;
#pragma unroll 1
    while (v) {
        count += v & 1;
        v >>= 1;
    }
    out[threadIdx.x] = count;
}
