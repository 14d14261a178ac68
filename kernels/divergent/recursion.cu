// Real recursion: a function that calls itself, at another depth in every lane.
//
// qdbg-needs: A M O R
//
// qdbg: launch recursion<<<1, 6>>>(n = i32[0, 1, 2, 4, 5, 7], fibonacci = i32[6], ackermann = i32[6])
// qdbg: expect fibonacci = i32[0, 1, 1, 3, 5, 13]
// qdbg: expect ackermann = i32[3, 3, 3, 5, 5, 7]

__device__ __noinline__ int fib(int n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

__device__ __noinline__ int ack(int m, int n)
{
    if (m == 0)
        return n + 1;
    if (n == 0)
        return ack(m - 1, 1);
    return ack(m - 1, ack(m, n - 1));
}

__global__ void recursion(const int *n, int *fibonacci, int *ackermann)
{
    fibonacci[threadIdx.x] = fib(n[threadIdx.x]);
    ackermann[threadIdx.x] = ack(2, n[threadIdx.x] / 3);
}
