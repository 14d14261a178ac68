// Softmax of a row a block: the largest value by shuffles, then exponentials and their sum.
//
// qdbg-needs: A B F I K M
//
// qdbg: launch softmax<<<2, 32>>>(x = f32[40] = random(141, -4, 4), out = f32[40], n = 20)
// qdbg: expect out ~ f32[0.03603407, 0.0035790137, 0.00022616684, 0.3493561, 0.159917, 0.000559198, 0.0014110458, 0.0039033936, 0.1467012, 0.00044433525, 0.0034421892, 0.0026561052, 0.21387914, 0.0072528752, 0.00013744623, 0.0071324226, 0.0007797504, 0.0008621084, 0.00016120267, 0.061565276, 0.00017844694, 0.036769092, 0.00020766494, 0.000109515415, 0.018844115, 0.026772913, 0.05275543, 0.18566805, 0.014395147, 0.010252257, 0.0012556507, 0.00055822666, 0.0009752935, 0.17994525, 0.015090841, 0.0029686464, 0.17288572, 0.26702154, 0.006820032, 0.0065261787] ulp 8

#define FULL 0xffffffffu

#include <math.h>

__global__ void softmax(const float *x, float *out, int n)
{
    int i = threadIdx.x;
    x += blockIdx.x * n;
    out += blockIdx.x * n;
    float v = i < n ? x[i] : -INFINITY;
    float top = v;
#pragma unroll 1
    for (int offset = 16; offset > 0; offset >>= 1)
        top = fmaxf(top, __shfl_xor_sync(FULL, top, offset));
    float e = i < n ? expf(v - top) : 0.0f;
    float sum = e;
#pragma unroll 1
    for (int offset = 16; offset > 0; offset >>= 1)
        sum += __shfl_xor_sync(FULL, sum, offset);
    if (i < n)
        out[i] = e / sum;
}
