// Sines and cosines. For angles of everyday size only the short way through the library is taken.
//
// qdbg-needs: A B F L M N P
//
// qdbg: launch waves<<<1, 8>>>(angle = f32[0, 0.5, -1, 1.5707964, 3, -10, 100, 1000], sine = f32[8], cosine = f32[8])
// qdbg: expect sine ~ f32[0, 0.47942555, -0.84147096, 1, 0.14112, 0.5440211, -0.50636566, 0.82687956] ulp 2
// qdbg: expect cosine ~ f32[1, 0.87758255, 0.5403023, -4.371139e-08, -0.9899925, -0.8390715, 0.8623189, 0.56237906] ulp 2

__global__ void waves(const float *angle, float *sine, float *cosine)
{
    int i = threadIdx.x;
    sine[i] = sinf(angle[i]);
    cosine[i] = cosf(angle[i]);
}
