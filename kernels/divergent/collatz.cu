// Length of the Collatz sequence of every start value.
//
// Lanes leave the loop after very different numbers of rounds, and inside it they part again on odd
// and even: the standard picture of divergence.
//
// qdbg-needs: A
//
// qdbg: launch collatz<<<1, 8>>>(start = u32[1, 2, 3, 4, 5, 6, 7, 8], steps = i32[8], n = 8)
// qdbg: expect steps = i32[0, 1, 7, 2, 5, 8, 16, 3]
//
// qdbg: launch collatz<<<1, 4>>>(start = u32[27, 1, 97, 16], steps = i32[4], n = 4)
// qdbg: expect steps = i32[111, 0, 118, 4]

__global__ void collatz(const unsigned *start, int *steps, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;

    unsigned x = start[i];
    int count = 0;
#pragma unroll 1
    while (x != 1) {
        if (x & 1)
            x = 3 * x + 1;
        else
            x >>= 1;
        count++;
    }
    steps[i] = count;
}
