// Maximum pooling of 2 x 2 windows, which remembers where the maximum was.
//
// qdbg-needs: A B
//
// qdbg: launch max_pool<<<1, (3, 2)>>>(in = f32[24] = random(191), out = f32[6], where = i32[6], width = 6)
// qdbg: expect out = f32[0.9807018, 0.7045133, 0.3455764, 0.6563239, 0.97775733, 0.359344]
// qdbg: expect where = i32[0, 3, 5, 12, 15, 23]

__global__ void max_pool(const float *in, float *out, int *where, int width)
{
    int first = 2 * threadIdx.y * width + 2 * threadIdx.x;
    int best = first;
#pragma unroll
    for (int k = 1; k < 4; k++) {
        int i = first + (k >> 1) * width + (k & 1);
        if (in[i] > in[best])
            best = i;
    }
    int o = threadIdx.y * blockDim.x + threadIdx.x;
    out[o] = in[best];
    where[o] = best;
}
