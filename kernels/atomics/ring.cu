// Counters that wrap: `atomicInc` hands out places in a ring, `atomicDec` counts down and starts again.
//
// The places go to the threads in any order, so what is expected are the sums.
//
// qdbg-needs: A G
//
// qdbg: launch ring<<<1, 20>>>(uses = u32[6], up = u32[1], down = u32[1] = 4, size = 6)
// qdbg: expect uses = u32[4, 4, 3, 3, 3, 3]
// qdbg: expect up = u32[2]
// qdbg: expect down = u32[5]

__global__ void ring(unsigned *uses, unsigned *up, unsigned *down, unsigned size)
{
    unsigned place = atomicInc(up, size - 1);
    atomicAdd(&uses[place], 1);
    atomicDec(down, size);
}
