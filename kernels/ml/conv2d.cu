// A convolution with two output channels; the weights are in constant memory.
//
// qdbg-needs: A B H
//
// qdbg: launch conv2d<<<(1, 1, 2), (4, 3)>>>(in = f32[30] = random(181), out = f32[24], width = 6)
// qdbg: expect out = f32[0, 0.18949568, 0, 1.9383315, 1.1896222, 0.4364901, 0, 0, 0, 0.850519, 1.2166637, 0, 2.689476, 0.2013756, 0.98530686, 0, 0, 0, 1.8122506, 0.059466124, 0, 0, 0, 0.8312957]

__constant__ float weights[2][3][3] = {
    {{0.25f, -0.5f, 0.125f}, {1.0f, 0.75f, -1.0f}, {0.0f, 0.5f, -0.25f}},
    {{-1.0f, 0.0f, 1.0f}, {-2.0f, 0.1f, 2.0f}, {-1.0f, 0.0f, 1.0f}},
};

__global__ void conv2d(const float *in, float *out, int width)
{
    int x = threadIdx.x, y = threadIdx.y, channel = blockIdx.z;
    float sum = 0.0f;
#pragma unroll 1
    for (int ky = 0; ky < 3; ky++)
#pragma unroll
        for (int kx = 0; kx < 3; kx++)
            sum = fmaf(weights[channel][ky][kx], in[(y + ky) * width + x + kx], sum);
    out[(channel * blockDim.y + y) * blockDim.x + x] = fmaxf(sum, 0.0f);
}
