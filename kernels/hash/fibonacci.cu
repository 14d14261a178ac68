// Fibonacci numbers modulo 2^32: thread i computes F(n[i]) and the numbers wrap from F(48) on.
//
// Every lane runs its own number of rounds.
//
// qdbg-needs: A
//
// qdbg: launch fibonacci<<<1, 6>>>(n = i32[0, 1, 2, 10, 47, 60], out = u32[6])
// qdbg: expect out = u32[0, 1, 1, 55, 2971215073, 1820529360]

__global__ void fibonacci(const int *n, unsigned *out)
{
    unsigned a = 0, b = 1;
    int rounds = n[threadIdx.x];
#pragma unroll 1
    for (int k = 0; k < rounds; k++) {
        unsigned next = a + b;
        a = b;
        b = next;
    }
    out[threadIdx.x] = a;
}
