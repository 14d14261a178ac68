// FNV-1a over the four bytes of every word of a message, one message a thread.
//
// qdbg-needs: A
//
// qdbg: launch fnv1a<<<1, 4>>>(message = u32[1819043176, 1998597231, 1819438967, 100, 0, 4294967295, 1, 2],
// qdbg:                        out = u32[4], words = 2)
// qdbg: expect out = u32[475909080, 1991633937, 3025216001, 3738734694]

__global__ void fnv1a(const unsigned *message, unsigned *out, int words)
{
    const unsigned *mine = message + threadIdx.x * words;
    unsigned hash = 2166136261u;
#pragma unroll 1
    for (int w = 0; w < words; w++) {
        unsigned word = mine[w];
#pragma unroll 1
        for (int byte = 0; byte < 4; byte++) {
            hash ^= word & 0xff;
            hash *= 16777619u;
            word >>= 8;
        }
    }
    out[threadIdx.x] = hash;
}
