// Quantisation to 8 bits and back: scale, round to nearest even, cut off, and what was lost.
//
// qdbg-needs: A B F J
//
// qdbg: launch quantize<<<1, 8>>>(x = f32[0, 0.05, -0.15, 1.27, 12.75, -12.8, 100, -0.25], q = i8[8], back = f32[8],
// qdbg:                           scale = 10, inverse = 0.1)
// qdbg: expect q = i8[0, 0, -2, 13, 127, -128, 127, -2]
// qdbg: expect back = f32[0, 0, -0.2, 1.3000001, 12.7, -12.8, 12.7, -0.2]

__global__ void quantize(const float *x, signed char *q, float *back, float scale, float inverse)
{
    int i = threadIdx.x;
    int rounded = __float2int_rn(x[i] * scale);
    signed char cut = max(-128, min(rounded, 127));
    q[i] = cut;
    back[i] = (float)cut * inverse;
}
