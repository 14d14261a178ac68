// Sums that lose nothing: Kahan's compensation in float beside the plain sum and one in double.
//
// qdbg-needs: A B F P
//
// qdbg: launch sums<<<1, 3>>>(x = f32[24] = random(261, 0, 1000), plain = f32[3], compensated = f32[3],
// qdbg:                       exact = f64[3], n = 8)
// qdbg: expect plain = f32[2056.1858, 3726.2842, 5927.6104]
// qdbg: expect compensated = f32[2056.1858, 3726.2842, 5927.611]
// qdbg: expect exact = f64[2056.1856842041016, 3726.284149169922, 5927.6107177734375]

__global__ void sums(const float *x, float *plain, float *compensated, double *exact, int n)
{
    x += threadIdx.x * n;
    float sum = 0.0f, kahan = 0.0f, lost = 0.0f;
    double wide = 0.0;
#pragma unroll 1
    for (int k = 0; k < n; k++) {
        sum += x[k];
        float y = x[k] - lost;
        float t = kahan + y;
        lost = (t - kahan) - y;
        kahan = t;
        wide += x[k];
    }
    plain[threadIdx.x] = sum;
    compensated[threadIdx.x] = kahan;
    exact[threadIdx.x] = wide;
}
