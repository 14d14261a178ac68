// Clamp every element to [lo, hi], signed and unsigned.
//
// min and max differ in what they take the sign bit for: the same words give two answers.
//
// qdbg-needs: A
//
// qdbg: launch clamp<<<1, 8>>>(x = i32[-100, -3, 0, 7, 50, 2147483647, -2147483648, 9],
// qdbg:                        signed_out = i32[8], unsigned_out = u32[8], lo = -5, hi = 40)
// qdbg: expect signed_out = i32[-5, -3, 0, 7, 40, 40, -5, 9]
// qdbg: expect unsigned_out = u32[4294967196, 4294967291, 7, 7, 50, 2147483647, 2147483648, 9]

__global__ void clamp(const int *x, int *signed_out, unsigned *unsigned_out, int lo, int hi)
{
    int i = threadIdx.x;
    int v = x[i];
    signed_out[i] = max(lo, min(v, hi));
    unsigned_out[i] = max(7u, min((unsigned)v, (unsigned)lo));
}
