// `printf` and `assert` in a kernel: the odd lanes report what they found.
//
// qdbg-needs: A G H L N O
//
// qdbg: launch report<<<1, 4>>>(x = i32[12, 7, -3, 40], found = i32[1])
// qdbg: expect found = i32[47]

#include <cassert>
#include <cstdio>

__global__ void report(const int *x, int *found)
{
    int i = threadIdx.x;
    assert(x[i] < 100);
    if (i & 1) {
        printf("thread %d has %d\n", i, x[i]);
        atomicAdd(found, x[i]);
    }
}
