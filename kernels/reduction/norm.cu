// The Euclidean length of a vector by a tree over two warps; the tree fixes the order of the additions.
//
// qdbg-needs: A B C F
//
// qdbg: launch norm<<<1, 64>>>(x = f32[100] = random(121, -10, 10), n = 100, out = f32[1])
// qdbg: expect out = f32[57.57714]

__global__ void norm(const float *x, int n, float *out)
{
    __shared__ float s[64];

    int tid = threadIdx.x;
    float sum = 0.0f;
#pragma unroll 1
    for (int i = tid; i < n; i += blockDim.x)
        sum = fmaf(x[i], x[i], sum);
    s[tid] = sum;
    __syncthreads();
#pragma unroll 1
    for (int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
        if (tid < stride)
            s[tid] += s[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        *out = sqrtf(s[0]);
}
