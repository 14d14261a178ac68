// Minimum, maximum, magnitude and sign of floats, zeros of both signs, infinities and NaN among them.
//
// fminf and fmaxf give the other operand where one is not a number.
//
// qdbg-needs: A B J M
//
// qdbg: launch extremes<<<1, 8>>>(x = f32[1.5, -2, nan, inf, -inf, 1e-40, -0.0, 3],
// qdbg:                           y = f32[2.5, -3, 4, -7, nan, -1e-40, -5, 3], low = f32[8], high = f32[8],
// qdbg:                           clamped = f32[8], order = i32[8])
// qdbg: expect low = f32[1.5, -3, 4, -7, -inf, -1e-40, -5, 3]
// qdbg: expect high = f32[2.5, -2, 4, inf, -inf, 1e-40, -0, 3]
// qdbg: expect clamped = f32[1.5, 2, 1, 2, 2, 1, 1, 2]
// qdbg: expect order = i32[25, 10, 24, 10, 24, 10, 10, 4]

__global__ void extremes(const float *x, const float *y, float *low, float *high, float *clamped, int *order)
{
    int i = threadIdx.x;
    float a = x[i], b = y[i];
    low[i] = fminf(a, b);
    high[i] = fmaxf(a, b);
    clamped[i] = fminf(fmaxf(fabsf(a), 1.0f), 2.0f);
    order[i] = (a < b) + 2 * (a > b) + 4 * (a == b) + 8 * (a != b) + 16 * !(a >= b);
}
