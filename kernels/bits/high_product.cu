// The high half of products: signed, unsigned, and a division by 7 done with it.
//
// qdbg-needs: A M
//
// qdbg: launch high_product<<<1, 6>>>(a = i32[-1, 2147483647, -2147483648, 123456789, 65536, 3],
// qdbg:                               b = i32[-1, 2147483647, -2147483648, -987654321, 65536, 5],
// qdbg:                               high = i32[6], unsigned_high = u32[6], seventh = u32[6])
// qdbg: expect high = i32[0, 1073741823, 1073741824, -28389653, 1, 0]
// qdbg: expect unsigned_high = u32[4294967294, 1073741823, 1073741824, 95067136, 1, 0]
// qdbg: expect seventh = u32[613566756, 306783378, 306783378, 472473282, 9362, 0]

__global__ void high_product(const int *a, const int *b, int *high, unsigned *unsigned_high, unsigned *seventh)
{
    int i = threadIdx.x;
    high[i] = __mulhi(a[i], b[i]);
    unsigned n = b[i];
    unsigned_high[i] = __umulhi(a[i], n);
    unsigned q = __umulhi(n, 0x24924925u);
    seventh[i] = ((n - q) / 2 + q) >> 2;
}
