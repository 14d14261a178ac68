// 64-bit atomics: a sum that passes 2^32, a maximum, and a product built out of `atomicCAS`.
//
// qdbg-needs: A D G L S
//
// qdbg: launch wide<<<2, 8>>>(sum = u64[1], largest = u64[1], product = u64[1] = 1)
// qdbg: expect sum = u64[584115552392]
// qdbg: expect largest = u64[17418742259747381416]
// qdbg: expect product = u64[20922789888000]

typedef unsigned long long u64;

__global__ void wide(u64 *sum, u64 *largest, u64 *product)
{
    u64 i = blockIdx.x * blockDim.x + threadIdx.x + 1;
    atomicAdd(sum, i * 0x100000001ull);
    atomicMax(largest, i * 0x9e3779b97f4a7c15ull);
    u64 seen = 1, assumed;
    do {
        assumed = seen;
        seen = atomicCAS(product, assumed, assumed * i);
    } while (seen != assumed);
}
