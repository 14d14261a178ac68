// The finaliser of MurmurHash3 over an array of 32-bit keys: multiply, shift and xor modulo 2^32.
//
// Every product overflows on purpose; a single wrong carry changes the whole hash.
//
// qdbg-needs: A
//
// qdbg: launch murmur<<<1, 8>>>(key = u32[0, 1, 2, 3735928559, 4294967295, 2147483648, 305419896, 42],
// qdbg:                         out = u32[8], seed = 2538058380)
// qdbg: expect out = u32[3954623016, 3898684125, 3114037501, 728170492, 4119229862, 122369041, 1989559639, 4017630911]

__device__ unsigned fmix32(unsigned h)
{
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    h ^= h >> 16;
    return h;
}

__global__ void murmur(const unsigned *key, unsigned *out, unsigned seed)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = fmix32(key[i] * 0xcc9e2d51u ^ seed);
}
