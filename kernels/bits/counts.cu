// Counting bits: how many, how many zeros in front, where is the first one, and the word turned round.
//
// qdbg-needs: A M
//
// qdbg: launch counts<<<1, 6>>>(x = u32[0, 1, 2147483648, 65280, 4294967295, 305419896], ones = i32[6],
// qdbg:                         leading = i32[6], first = i32[6], reversed = u32[6])
// qdbg: expect ones = i32[0, 1, 1, 8, 32, 13]
// qdbg: expect leading = i32[32, 31, 0, 16, 0, 3]
// qdbg: expect first = i32[0, 1, 32, 9, 1, 4]
// qdbg: expect reversed = u32[0, 2147483648, 1, 16711680, 4294967295, 510274632]

__global__ void counts(const unsigned *x, int *ones, int *leading, int *first, unsigned *reversed)
{
    int i = threadIdx.x;
    ones[i] = __popc(x[i]);
    leading[i] = __clz(x[i]);
    first[i] = __ffs(x[i]);
    reversed[i] = __brev(x[i]);
}
