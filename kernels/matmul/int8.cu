// Matrix product of 8-bit integers with 32-bit sums, four products an instruction.
//
// A is row-major and B is stored by columns, so that both sides of `dp4a` are one word.
//
// qdbg-needs: A M
//
// qdbg: launch int8_matmul<<<1, (3, 2)>>>(a = i8[16] = random(21), b = i8[24] = random(22), c = i32[6],
// qdbg:                                   words = 2, n = 3)
// qdbg: expect c = i32[-7019, 15139, 8306, -8139, 9149, 12702]

// `__dp4a` as inline PTX, since some compilers do not know the intrinsic when they optimise little.
__device__ int dot4(int a, int b, int sum)
{
#ifdef __CUDA_ARCH__
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(sum));
    return sum;
#else
    return __dp4a(a, b, sum);
#endif
}

__global__ void int8_matmul(const int *a, const int *b, int *c, int words, int n)
{
    int row = threadIdx.y, col = threadIdx.x;
    int sum = 0;
#pragma unroll 1
    for (int k = 0; k < words; k++)
        sum = dot4(a[row * words + k], b[col * words + k], sum);
    c[row * n + col] = sum;
}
