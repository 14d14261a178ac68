// Layer normalisation of a row a warp, two warps a block: mean and variance by shuffles.
//
// qdbg-needs: A B F K
//
// qdbg: launch layer_norm<<<1, (32, 2)>>>(x = f32[64] = random(151, -3, 5), gain = f32[32] = random(152),
// qdbg:                                   bias = f32[32] = random(153), out = f32[64], epsilon = 1e-5)
// qdbg: expect out = f32[0.36673895, -0.021032404, -0.7382029, 0.013175671, -0.24742724, 1.6135654, 0.25286645, -0.54903114, -1.5707233, 0.15312405, 0.39344245, -1.4177418, -0.0010688565, 1.0321604, -0.42040274, -0.11604744, -0.38486594, -0.46255708, 0.18152767, 0.7634274, 1.3464215, -0.30033034, -0.70248723, -0.20060591, 0.24018595, 0.19114119, 0.7944788, 0.3738535, 0.81264937, 0.59325683, 0.6663101, -0.18820405, -0.107710175, -0.11950841, -1.2510895, -0.7964295, 0.46594727, 1.1014308, 0.5053697, 1.5231154, -0.16291502, -0.14427331, 1.2158014, -0.23417094, -0.0923529, 1.3581233, -0.26729184, -1.9497762, -0.61460996, -1.7407361, 0.31026697, 0.68601847, 0.59553546, 0.21925038, 0.9491812, -0.14387172, -0.34072295, 0.034527626, 1.1755686, 1.2809608, 0.5475806, -1.2484286, 1.1082823, 0.60072845]

__device__ float warp_sum(float v)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, offset);
    return v;
}

__global__ void layer_norm(const float *x, const float *gain, const float *bias, float *out, float epsilon)
{
    int lane = threadIdx.x, i = threadIdx.y * 32 + lane;
    float v = x[i];
    float centred = v - warp_sum(v) * 0.03125f;
    float variance = warp_sum(centred * centred) * 0.03125f;
    float scale = 1.0f / sqrtf(variance + epsilon);
    out[i] = fmaf(centred * scale, gain[lane], bias[lane]);
}
