// Numbers of 256 bits added and compared, one pair a thread; the carry goes from word to word.
//
// qdbg-needs: A D L
//
// qdbg: launch add_256<<<1, 2>>>(a = u64[18446744073709551615, 18446744073709551615, 18446744073709551615, 1,
// qdbg:                          1, 2, 3, 4], b = u64[1, 0, 0, 0, 18446744073709551615, 18446744073709551613, 5,
// qdbg:                          18446744073709551615], sum = u64[8], carry = u32[2], less = i32[2])
// qdbg: expect sum = u64[0, 0, 0, 2, 0, 0, 9, 3]
// qdbg: expect carry = u32[0, 1]
// qdbg: expect less = i32[0, 1]

typedef unsigned long long u64;

__global__ void add_256(const u64 *a, const u64 *b, u64 *sum, unsigned *carry, int *less)
{
    a += 4 * threadIdx.x;
    b += 4 * threadIdx.x;
    u64 c = 0;
    int smaller = 0;
#pragma unroll 1
    for (int k = 0; k < 4; k++) {
        u64 x = a[k], s = x + c;
        c = s < x;
        s += b[k];
        c += s < b[k];
        sum[4 * threadIdx.x + k] = s;
        smaller = x == b[k] ? smaller : x < b[k];
    }
    carry[threadIdx.x] = c;
    less[threadIdx.x] = smaller;
}
