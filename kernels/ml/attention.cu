// Attention of four queries over six keys with an online softmax: one pass, rescaled as the maximum grows.
//
// qdbg-needs: A B F I M
//
// qdbg: launch attention<<<1, 4>>>(q = f32[16] = random(211, -2, 2), k = f32[24] = random(212, -2, 2),
// qdbg:                            v = f32[24] = random(213), out = f32[16], keys = 6)
// qdbg: expect out ~ f32[0.30309257, -0.2106184, 0.50584006, -0.5843096, 0.43401885, 0.024420898, 0.18482631, -0.12989104, 0.61187917, 0.1517214, 0.0890376, 0.04659773, 0.64915466, 0.22047223, 0.01331251, 0.08840358] ulp 16

#include <math.h>

#define DIM 4

__global__ void attention(const float *q, const float *k, const float *v, float *out, int keys)
{
    const float *query = q + threadIdx.x * DIM;
    float top = -INFINITY, sum = 0.0f;
    float result[DIM] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 1
    for (int j = 0; j < keys; j++) {
        float score = 0.0f;
#pragma unroll
        for (int d = 0; d < DIM; d++)
            score = fmaf(query[d], k[j * DIM + d], score);
        score *= 0.5f;
        float higher = fmaxf(top, score);
        float old = expf(top - higher), now = expf(score - higher);
        sum = fmaf(sum, old, now);
#pragma unroll
        for (int d = 0; d < DIM; d++)
            result[d] = fmaf(result[d], old, now * v[j * DIM + d]);
        top = higher;
    }
#pragma unroll
    for (int d = 0; d < DIM; d++)
        out[threadIdx.x * DIM + d] = result[d] / sum;
}
