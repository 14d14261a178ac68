// Marsaglia's xorshift32, every thread with a seed of its own, `rounds` steps each.
//
// qdbg-needs: A
//
// qdbg: launch xorshift<<<1, 4>>>(seed = u32[1, 2463534242, 3735928559, 4294967295], out = u32[4],
// qdbg:                           rounds = 5)
// qdbg: expect out = u32[2398689233, 3532304609, 1745748808, 2049502865]

__global__ void xorshift(const unsigned *seed, unsigned *out, int rounds)
{
    unsigned x = seed[threadIdx.x];
#pragma unroll 1
    for (int r = 0; r < rounds; r++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
    }
    out[threadIdx.x] = x;
}
