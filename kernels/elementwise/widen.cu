// 64-bit products, sums and shifts of 32-bit numbers, signed and unsigned.
//
// qdbg-needs: A D L
//
// qdbg: launch widen<<<1, 6>>>(a = i32[3, -3, 2147483647, -2147483648, 65536, -1],
// qdbg:                        b = i32[5, 5, 2147483647, -2147483648, 65536, -1],
// qdbg:                        product = i64[6], unsigned_product = u64[6], shifted = i64[6])
// qdbg: expect product = i64[15, -15, 4611686014132420609, 4611686018427387904, 4294967296, 1]
// qdbg: expect unsigned_product = u64[15, 21474836465, 4611686014132420609, 4611686018427387904, 4294967296, 18446744065119617025]
// qdbg: expect shifted = i64[-5242879, -5242881, 141863388129001472, 74309393851613184, -68685922304, 1048576]

__global__ void widen(const int *a, const int *b, long long *product, unsigned long long *unsigned_product,
                      long long *shifted)
{
    int i = threadIdx.x;
    long long p = (long long)a[i] * b[i];
    product[i] = p;
    unsigned_product[i] = (unsigned long long)(unsigned)a[i] * (unsigned)b[i];
    shifted[i] = (p >> (i + 3)) - ((long long)b[i] << 20);
}
