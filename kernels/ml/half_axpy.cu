// Half precision: y = a * x + y two at a time, and a dot product with a float sum.
//
// The arrays are given by their bits.
//
// qdbg-needs: A B F H Q
//
// qdbg: launch half_axpy<<<1, 4>>>(x = u16[15360, 48128, 11878, 31743, 1, 33792, 20480, 13653],
// qdbg:                            y = u16[15361, 15360, 45056, 31743, 2, 1024, 47104, 15360], dot = f32[4],
// qdbg:                            a = 1.5)
// qdbg: expect y = u16[16640, 47104, 9828, 31744, 4, 33280, 20976, 15872]
// qdbg: expect dot = f32[0.0009765625, 4290774016, -3.7252832e-09, -15.666748]

#include <cuda_fp16.h>

__global__ void half_axpy(const __half2 *x, __half2 *y, float *dot, float a)
{
    int i = threadIdx.x;
    __half2 p = x[i], q = y[i];
    y[i] = __hfma2(__float2half2_rn(a), p, q);
    dot[i] = fmaf(__low2float(p), __low2float(q), __high2float(p) * __high2float(q));
}
