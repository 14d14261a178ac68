// The number below 500 with the longest Collatz sequence: 125 threads with four numbers each.
//
// qdbg-needs: A G
//
// qdbg: launch collatz<<<1, 125>>>(longest = u32[1], n = 500)
// qdbg: expect longest = u32[9371975]

__global__ void collatz(unsigned *longest, unsigned n)
{
#pragma unroll 1
    for (unsigned start = threadIdx.x + 1; start < n; start += blockDim.x) {
        unsigned steps = 0;
#pragma unroll 1
        for (unsigned x = start; x != 1; x = x & 1 ? 3 * x + 1 : x / 2)
            steps++;
        atomicMax(longest, steps << 16 | start);
    }
}
