// A block of 1,024 threads, the largest there is: sum and maximum by shuffles, shared memory and atomics.
//
// qdbg-needs: A C G K
//
// qdbg: launch thousand<<<1, 1024>>>(sum = u32[1], largest = u32[1], seed = 12345)
// qdbg: expect sum = u32[536209239]
// qdbg: expect largest = u32[1048097]

#define FULL 0xffffffffu

__global__ void thousand(unsigned *sum, unsigned *largest, unsigned seed)
{
    __shared__ unsigned block_largest;

    if (threadIdx.x == 0)
        block_largest = 0;
    __syncthreads();

    unsigned x = (threadIdx.x * 2654435761u ^ seed) >> 12;
    unsigned total = x, top = x;
    for (int offset = 16; offset > 0; offset >>= 1) {
        total += __shfl_xor_sync(FULL, total, offset);
        top = max(top, __shfl_xor_sync(FULL, top, offset));
    }
    if ((threadIdx.x & 31) == 0) {
        atomicAdd(sum, total);
        atomicMax(&block_largest, top);
    }
    __syncthreads();
    if (threadIdx.x == 0)
        *largest = block_largest;
}
