// Indirect calls: each lane picks its function out of a table.
//
// qdbg-needs: A L N O
//
// qdbg: launch apply<<<1, 8>>>(which = i32[0, 1, 2, 0, 1, 2, 2, 0], a = i32[8] = iota, out = i32[8], b = 3)
// qdbg: expect out = i32[3, -2, 6, 6, 1, 15, 18, 10]

typedef int (*Operation)(int, int);

__device__ int add(int a, int b)
{
    return a + b;
}

__device__ int subtract(int a, int b)
{
    return a - b;
}

__device__ int multiply(int a, int b)
{
    return a * b;
}

__global__ void apply(const int *which, const int *a, int *out, int b)
{
    Operation operations[3] = {add, subtract, multiply};
    out[threadIdx.x] = operations[which[threadIdx.x]](a[threadIdx.x], b);
}
