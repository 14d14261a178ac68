// Primes: trial division by each thread, and how many there are by an atomic.
//
// qdbg-needs: A E G J
//
// qdbg: launch primes<<<2, 16>>>(is_prime = u8[32], count = i32[1], first = 90)
// qdbg: expect is_prime = u8[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]
// qdbg: expect count = i32[6]

__global__ void primes(unsigned char *is_prime, int *count, unsigned first)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned n = first + i;
    bool prime = n > 1;
#pragma unroll 1
    for (unsigned d = 2; d * d <= n && prime; d++)
        prime = n % d != 0;
    is_prime[i] = prime;
    if (prime)
        atomicAdd(count, 1);
}
