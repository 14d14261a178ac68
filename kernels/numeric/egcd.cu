// Inverses modulo a number by the extended Euclidean algorithm; lanes need different numbers of steps.
//
// qdbg-needs: A E
//
// qdbg: launch inverse<<<1, 6>>>(a = i32[3, 7, 10, 12, 1000, 123456], m = i32[11, 26, 17, 18, 1009, 1000003],
// qdbg:                          out = i32[6])
// qdbg: expect out = i32[4, 15, 12, -1, 112, 414894]

__global__ void inverse(const int *a, const int *m, int *out)
{
    int old_r = a[threadIdx.x], r = m[threadIdx.x];
    int old_s = 1, s = 0;
#pragma unroll 1
    while (r != 0) {
        int q = old_r / r, t = old_r - q * r;
        old_r = r;
        r = t;
        t = old_s - q * s;
        old_s = s;
        s = t;
    }
    if (old_r != 1)
        out[threadIdx.x] = -1;
    else
        out[threadIdx.x] = old_s < 0 ? old_s + m[threadIdx.x] : old_s;
}
