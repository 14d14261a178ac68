// Root-mean-square normalisation, four values a load; the inverse root is the approximate one.
//
// qdbg-needs: A B C H I
//
// qdbg: launch rms_norm<<<2, 4>>>(x = f32[32] = random(161, -2, 2), weight = f32[16] = random(162), out = f32[32])
// qdbg: expect out ~ f32[-0.25480995, 0.4840292, -0.07047239, 0.59911144, -0.5652036, -0.2478403, 0.8833667, 0.03011851, 1.2151306, -0.30853868, 0.025273148, 0.22896577, -0.9543493, -1.1108425, -0.5364064, -0.6076088, 0.59990513, 0.13354756, 0.2999448, 1.7022635, 0.7899645, -0.5788074, -0.4086531, 0.9972459, -1.0489929, -0.16404004, -0.010163849, 0.053015474, 0.51995015, 0.62446564, -0.14389017, 0.36902428] ulp 4

__global__ void rms_norm(const float4 *x, const float4 *weight, float4 *out)
{
    __shared__ float s[4];

    int i = threadIdx.x;
    float4 v = x[blockIdx.x * 4 + i], w = weight[i];
    s[i] = fmaf(v.w, v.w, fmaf(v.z, v.z, fmaf(v.y, v.y, v.x * v.x)));
    __syncthreads();
    float scale = rsqrtf(fmaf((s[0] + s[1]) + (s[2] + s[3]), 0.0625f, 1e-6f));
    out[blockIdx.x * 4 + i] =
        make_float4(v.x * scale * w.x, v.y * scale * w.y, v.z * scale * w.z, v.w * scale * w.w);
}
