// A store past the end of an array: the missing guard `i < n` of the beginner's kernel.
//
// `out` holds five words and eight threads write one each. Threads 0 to 4 succeed; thread 5 hits a
// word that belongs to no allocation, and the machine traps there, naming the lane. There is nothing
// to expect: `qdbg run` ends with status 3.
//
// qdbg-needs: A
//
// qdbg: launch square<<<1, 8>>>(out = i32[5])

__global__ void square(int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = i * i;
}
