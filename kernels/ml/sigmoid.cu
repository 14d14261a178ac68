// Sigmoid and SiLU, once as they are written and once with the fast exponential and division.
//
// qdbg-needs: A B F I M
//
// qdbg: launch sigmoid<<<1, 8>>>(x = f32[-20, -3.5, -1, -0.0, 0.25, 1, 4, 30], out = f32[8], silu = f32[8],
// qdbg:                          fast = f32[8])
// qdbg: expect out ~ f32[2.0611537e-09, 0.02931223, 0.26894143, 0.5, 0.5621765, 0.7310586, 0.98201376, 1] ulp 4
// qdbg: expect silu ~ f32[-4.1223075e-08, -0.10259281, -0.26894143, -0, 0.14054413, 0.7310586, 3.928055, 30] ulp 4
// qdbg: expect fast ~ f32[2.0611537e-09, 0.02931223, 0.26894143, 0.5, 0.5621765, 0.7310586, 0.98201376, 1] ulp 32

__global__ void sigmoid(const float *x, float *out, float *silu, float *fast)
{
    int i = threadIdx.x;
    float v = x[i];
    float s = 1.0f / (1.0f + expf(-v));
    out[i] = s;
    silu[i] = v * s;
    fast[i] = __fdividef(1.0f, 1.0f + __expf(-v));
}
