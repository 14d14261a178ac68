// Floats taken apart: the famous inverse square root, the next number, and the exponent.
//
// qdbg-needs: A B
//
// qdbg: launch float_bits<<<1, 6>>>(x = f32[1, 2, 0.15625, 1e-38, 3e38, 100], inverse_root = f32[6],
// qdbg:                             next = f32[6], exponent = i32[6])
// qdbg: expect inverse_root = f32[0.99830717, 0.70693004, 2.5254862, 9.925897e+18, 5.771967e-20, 0.09984488]
// qdbg: expect next = f32[1.0000001, 2.0000002, 0.15625001, 1.0000001e-38, 3.0000002e+38, 100.00001]
// qdbg: expect exponent = i32[0, 1, -3, -127, 127, 6]

__global__ void float_bits(const float *x, float *inverse_root, float *next, int *exponent)
{
    int i = threadIdx.x;
    float v = x[i], half = 0.5f * v;
    float y = __int_as_float(0x5f3759df - (__float_as_int(v) >> 1));
    y *= fmaf(-half * y, y, 1.5f);
    inverse_root[i] = y;
    next[i] = __int_as_float(__float_as_int(v) + 1);
    exponent[i] = (__float_as_int(v) >> 23 & 0xff) - 127;
}
