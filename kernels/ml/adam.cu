// One step of Adam: moments, their corrections, a root and a division.
//
// qdbg-needs: A B F
//
// qdbg: launch adam<<<1, 6>>>(w = f32[6] = random(201), g = f32[6] = random(202, -0.1, 0.1),
// qdbg:                       m = f32[6] = random(203, -0.1, 0.1), v = f32[6] = random(204, 0, 0.01),
// qdbg:                       rate = 0.01, correction1 = 5.263158, correction2 = 333.6668, n = 6)
// qdbg: expect w = f32[0.30544952, -0.074376255, 0.780928, 0.26337442, -0.58474326, -0.1443749]
// qdbg: expect m = f32[0.04533729, 0.017114565, 0.01476333, -0.09039724, -0.036056414, 0.08282654]
// qdbg: expect v = f32[0.0009105499, 0.009977659, 0.001004982, 0.007895831, 0.0030741545, 0.0010628088]

__global__ void adam(float *w, const float *g, float *m, float *v, float rate, float correction1,
                     float correction2, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float gradient = g[i];
    m[i] = fmaf(0.9f, m[i], 0.1f * gradient);
    v[i] = fmaf(0.999f, v[i], 0.001f * gradient * gradient);
    float step = m[i] * correction1 / (sqrtf(v[i] * correction2) + 1e-8f);
    w[i] = fmaf(-rate, step, w[i]);
}
