// c = a + b, one element a thread: the first kernel of every CUDA course.
//
// The guard `i < n` leaves the last lanes of the block without work.
//
// qdbg-needs: A
//
// qdbg: launch vector_add<<<1, 8>>>(a = i32[1, 2, 3, 4, 5], b = i32[10, -20, 30, -40, 2147483647],
// qdbg:                             c = i32[5], n = 5)
// qdbg: expect c = i32[11, -18, 33, -36, -2147483644]

__global__ void vector_add(const int *a, const int *b, int *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = (int)((unsigned)a[i] + (unsigned)b[i]);
}
