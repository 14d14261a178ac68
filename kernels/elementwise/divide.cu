// Quotients and remainders: signed ones round towards zero, and the compiler turns a division by a
// constant into a multiplication.
//
// qdbg-needs: A E L M
//
// qdbg: launch divide<<<1, 8>>>(a = i32[100, -100, 7, -7, 2147483647, -2147483647, 0, 123456789],
// qdbg:                         b = i32[7, 7, -2, 2, 10, -10, 5, -1000], quotient = i32[8],
// qdbg:                         remainder = i32[8], tenth = i32[8], digit = u32[8])
// qdbg: expect quotient = i32[14, -14, -3, -3, 214748364, 214748364, 0, -123456]
// qdbg: expect remainder = i32[2, -2, 1, -1, 7, -7, 0, 789]
// qdbg: expect tenth = i32[10, -10, 0, 0, 214748364, -214748364, 0, 12345678]
// qdbg: expect digit = u32[0, 6, 7, 9, 7, 9, 0, 9]

__global__ void divide(const int *a, const int *b, int *quotient, int *remainder, int *tenth, unsigned *digit)
{
    int i = threadIdx.x;
    quotient[i] = a[i] / b[i];
    remainder[i] = a[i] % b[i];
    tenth[i] = a[i] / 10;
    digit[i] = (unsigned)a[i] % 10;
}
