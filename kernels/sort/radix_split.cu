// Radix sort of one warp, a bit at a time: zeros to the front, ones behind them, by ballots.
//
// qdbg-needs: A C K M
//
// qdbg: launch radix<<<1, 32>>>(keys = u32[32] = random(17, 0, 64), bits = 6)
// qdbg: expect keys = u32[1, 3, 4, 5, 5, 9, 12, 15, 17, 19, 21, 22, 27, 28, 30, 32, 32, 35, 35, 37, 40, 40, 42, 42, 42, 43, 50, 53, 53, 55, 57, 58]

#define FULL 0xffffffffu

__global__ void radix(unsigned *keys, int bits)
{
    __shared__ unsigned s[32];

    int lane = threadIdx.x;
    unsigned below = (1u << lane) - 1;
    unsigned key = keys[lane];
#pragma unroll 1
    for (int bit = 0; bit < bits; bit++) {
        bool one = key >> bit & 1;
        unsigned ones = __ballot_sync(FULL, one);
        int place = one ? __popc(~ones) + __popc(ones & below) : __popc(~ones & below);
        s[place] = key;
        __syncwarp();
        key = s[lane];
        __syncwarp();
    }
    keys[lane] = key;
}
