// GELU by the hyperbolic tangent.
//
// qdbg-needs: A B I
//
// qdbg: launch gelu<<<1, 8>>>(x = f32[-1.5, -1, -0.5, 0, 0.1, 0.7, 1.5, 4], out = f32[8])
// qdbg: expect out ~ f32[-0.10042843, -0.158808, -0.154286, 0, 0.053982753, 0.53057015, 1.3995715, 3.99993] ulp 16

__global__ void gelu(const float *x, float *out)
{
    float v = x[threadIdx.x];
    float inner = 0.7978845608f * fmaf(0.044715f * v, v * v, v);
    out[threadIdx.x] = 0.5f * v * (1.0f + tanhf(inner));
}
