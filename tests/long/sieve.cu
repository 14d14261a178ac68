// The sieve of Eratosthenes over the numbers below 3,000, a byte of shared memory each.
//
// qdbg-needs: A C G J
//
// qdbg: launch sieve<<<1, 128>>>(count = u32[1], sum = u32[1], n = 3000)
// qdbg: expect count = u32[430]
// qdbg: expect sum = u32[593823]

__global__ void sieve(unsigned *count, unsigned *sum, int n)
{
    __shared__ unsigned char composite[3000];

#pragma unroll 1
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        composite[i] = i < 2;
    __syncthreads();
#pragma unroll 1
    for (int p = 2; p * p < n; p++) {
        if (!composite[p]) {
#pragma unroll 1
            for (int i = p * (p + threadIdx.x); i < n; i += p * blockDim.x)
                composite[i] = 1;
        }
        __syncthreads();
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        if (!composite[i]) {
            atomicAdd(count, 1);
            atomicAdd(sum, i);
        }
    }
}
