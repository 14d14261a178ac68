// Shifts left, right logical and right arithmetic by every lane's own distance.
//
// qdbg-needs: A
//
// qdbg: launch shifts<<<1, 8>>>(x = i32[1, -1, -2147483648, 2147483647, 123456789, -42, 0, -65536],
// qdbg:                         by = i32[31, 4, 31, 1, 0, 1, 7, 16], left = u32[8], logical = u32[8],
// qdbg:                         arithmetic = i32[8])
// qdbg: expect left = u32[2147483648, 4294967280, 0, 4294967294, 123456789, 4294967212, 0, 0]
// qdbg: expect logical = u32[0, 268435455, 1, 1073741823, 123456789, 2147483627, 0, 65535]
// qdbg: expect arithmetic = i32[0, -1, -1, 1073741823, 123456789, -21, 0, -1]

__global__ void shifts(const int *x, const int *by, unsigned *left, unsigned *logical, int *arithmetic)
{
    int i = threadIdx.x;
    int v = x[i];
    int s = by[i];
    left[i] = (unsigned)v << s;
    logical[i] = (unsigned)v >> s;
    arithmetic[i] = v >> s;
}
