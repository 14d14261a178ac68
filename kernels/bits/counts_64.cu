// The same over 64 bits, and a rotation.
//
// qdbg-needs: A D L M
//
// qdbg: launch counts_64<<<1, 4>>>(x = u64[0, 1, 9223372036854775808, 81985529216486895], ones = i32[4],
// qdbg:                            leading = i32[4], first = i32[4], rotated = u64[4], by = 20)
// qdbg: expect ones = i32[0, 1, 1, 32]
// qdbg: expect leading = i32[64, 63, 0, 7]
// qdbg: expect first = i32[0, 1, 64, 1]
// qdbg: expect rotated = u64[0, 1048576, 524288, 6230900220451885620]

__global__ void counts_64(const unsigned long long *x, int *ones, int *leading, int *first,
                          unsigned long long *rotated, int by)
{
    int i = threadIdx.x;
    unsigned long long v = x[i];
    ones[i] = __popcll(v);
    leading[i] = __clzll(v);
    first[i] = __ffsll(v);
    rotated[i] = v << by | v >> (64 - by);
}
