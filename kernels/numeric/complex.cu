// A Fourier transform of eight points: complex numbers in pairs, the roots of unity in constant memory.
//
// qdbg-needs: A B D H
//
// qdbg: launch dft<<<1, 8>>>(x = f32[16] = random(251), out = f32[16])
// qdbg: expect out = f32[-0.17495096, 1.9829228, 1.3002292, -2.773682, -0.44899666, 0.73554134, 2.2508595, -1.8989679, -0.9696959, 1.0290868, -1.1183634, -2.5081086, -1.3271868, -3.0906897, 0.3836464, 2.5244038]

__constant__ float2 roots[8] = {
    {1.0f, 0.0f},  {0.70710678f, -0.70710678f},  {0.0f, -1.0f}, {-0.70710678f, -0.70710678f},
    {-1.0f, 0.0f}, {-0.70710678f, 0.70710678f}, {0.0f, 1.0f},  {0.70710678f, 0.70710678f},
};

__global__ void dft(const float2 *x, float2 *out)
{
    int k = threadIdx.x;
    float re = 0.0f, im = 0.0f;
#pragma unroll 1
    for (int n = 0; n < 8; n++) {
        float2 v = x[n], w = roots[n * k & 7];
        re = fmaf(v.x, w.x, fmaf(-v.y, w.y, re));
        im = fmaf(v.x, w.y, fmaf(v.y, w.x, im));
    }
    out[k] = make_float2(re, im);
}
