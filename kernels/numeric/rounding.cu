// Floats to whole numbers in every direction, as floats and as integers, and back.
//
// qdbg-needs: A B F M
//
// qdbg: launch rounding<<<1, 8>>>(x = f32[0.5, -0.5, 1.5, 2.5, -2.5, 1e9, -7.999, 8388609],
// qdbg:                           down = f32[8], up = f32[8], even = f32[8], cut = f32[8], nearest = i32[8],
// qdbg:                           floor_int = i32[8], exact = f32[8])
// qdbg: expect down = f32[0, -1, 1, 2, -3, 1e+09, -8, 8388609]
// qdbg: expect up = f32[1, -0, 2, 3, -2, 1e+09, -7, 8388609]
// qdbg: expect even = f32[0, -0, 2, 2, -2, 1e+09, -8, 8388609]
// qdbg: expect cut = f32[0, -0, 1, 2, -2, 1e+09, -7, 8388609]
// qdbg: expect nearest = i32[0, 0, 2, 2, -2, 1000000000, -8, 8388609]
// qdbg: expect floor_int = i32[0, -1, 1, 2, -3, 1000000000, -8, 8388609]
// qdbg: expect exact = f32[4311744512, 4311744512, 4311744512, 4311744000, 4311744000, 4311744000, 4311744000, 4311743488]

__global__ void rounding(const float *x, float *down, float *up, float *even, float *cut, int *nearest,
                         int *floor_int, float *exact)
{
    int i = threadIdx.x;
    float v = x[i];
    down[i] = floorf(v);
    up[i] = ceilf(v);
    even[i] = rintf(v);
    cut[i] = truncf(v);
    nearest[i] = __float2int_rn(v);
    floor_int[i] = __float2int_rd(v);
    exact[i] = (float)(16777217 + 2 * i) + (float)(4294967295u - 128 * i);
}
