// Fixed point with 16 bits behind the point: a polynomial, and a quotient with 64-bit division.
//
// qdbg-needs: A E L
//
// qdbg: launch fixed<<<1, 5>>>(x = i32[65536, -32768, 0, 98304, 205887], poly = i32[5], inverse = i32[5])
// qdbg: expect poly = i32[196608, 270336, 327680, 106496, 419257]
// qdbg: expect inverse = i32[65536, -131072, 2147483647, 43690, 20860]

typedef int fix;

__device__ fix multiply(fix a, fix b)
{
    return (long long)a * b >> 16;
}

__global__ void fixed(const fix *x, fix *poly, fix *inverse)
{
    fix v = x[threadIdx.x];
    poly[threadIdx.x] = multiply(multiply(v, v) - 3 * v, v) + (5 << 16);
    inverse[threadIdx.x] = v == 0 ? 0x7fffffff : (1ll << 32) / v;
}
