// Gravity between a few bodies: positions in shared memory, an inverse square root a pair.
//
// qdbg-needs: A B C H I
//
// qdbg: launch nbody<<<1, 5>>>(body = f32[20] = random(241, 0.5, 4), force = f32[20], softening = 0.01, n = 5)
// qdbg: expect force ~ f32[-0.44188625, 1.3152417, -0.2736772, 0.78946567, 1.070268, 0.7809008, -1.8789345, 3.0455909, 0.6067192, -4.367013, 0.79326075, 2.6777077, -4.1043863, 3.0207582, 0.6034858, 2.208104, 2.4466972, 0.86831397, 1.341194, 1.8504742] ulp 16

__global__ void nbody(const float4 *body, float4 *force, float softening, int n)
{
    __shared__ float4 s[32];

    int i = threadIdx.x;
    float4 me = body[i];
    s[i] = me;
    __syncthreads();
    float fx = 0.0f, fy = 0.0f, fz = 0.0f;
#pragma unroll 1
    for (int j = 0; j < n; j++) {
        float dx = s[j].x - me.x, dy = s[j].y - me.y, dz = s[j].z - me.z;
        float distance = fmaf(dx, dx, fmaf(dy, dy, fmaf(dz, dz, softening)));
        float inverse = rsqrtf(distance);
        float pull = s[j].w * inverse * inverse * inverse;
        fx = fmaf(dx, pull, fx);
        fy = fmaf(dy, pull, fy);
        fz = fmaf(dz, pull, fz);
    }
    force[i] = make_float4(fx, fy, fz, me.w);
}
