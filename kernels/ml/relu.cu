// ReLU and leaky ReLU, forward and backward.
//
// qdbg-needs: A B
//
// qdbg: launch relu<<<1, 8>>>(x = f32[-2.5, -0.0, 0, 1e-30, 3.25, -1e30, 7, -0.125],
// qdbg:                       gradient = f32[1, 2, 3, 4, 5, 6, 7, 8], out = f32[8], leaky = f32[8],
// qdbg:                       back = f32[8], slope = 0.01, n = 8)
// qdbg: expect out = f32[0, 0, 0, 1e-30, 3.25, 0, 7, 0]
// qdbg: expect leaky = f32[-0.024999999, -0, 0, 1e-30, 3.25, -1e+28, 7, -0.00125]
// qdbg: expect back = f32[0, 0, 0, 4, 5, 0, 7, 0]

__global__ void relu(const float *x, const float *gradient, float *out, float *leaky, float *back, float slope,
                     int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float v = x[i];
    out[i] = v > 0.0f ? v : 0.0f;
    leaky[i] = v > 0.0f ? v : slope * v;
    back[i] = v > 0.0f ? gradient[i] : 0.0f;
}
