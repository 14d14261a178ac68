// Dropout with a random number a thread from a hash, and what is kept scaled up.
//
// qdbg-needs: A B F
//
// qdbg: launch dropout<<<2, 8>>>(x = f32[16] = random(231), out = f32[16], keep = 0.7, seed = 42)
// qdbg: expect out = f32[-0.2545287, 0, -0.45878395, 0, 0, 0.59376276, 0.22344607, 0, 1.2225711, 0.7933126, -0.88788325, 0, 0.32571486, 0, -1.2150509, 0.048069105]

__device__ float uniform(unsigned x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    x ^= x >> 16;
    return (float)(x >> 8) * 5.9604644775390625e-8f;
}

__global__ void dropout(const float *x, float *out, float keep, unsigned seed)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = uniform(seed + i * 0x9e3779b9u) < keep ? x[i] / keep : 0.0f;
}
