// A 3 x 3 filter over a grey picture; its weights are in constant memory and the edge repeats.
//
// qdbg-needs: A H J
//
// qdbg: launch blur<<<1, (6, 4)>>>(in = u8[24] = random(9), out = u8[24], width = 6, height = 4)
// qdbg: expect out = u8[117, 117, 129, 131, 163, 212, 134, 114, 117, 124, 147, 185, 136, 131, 129, 130, 140, 161, 157, 161, 149, 155, 153, 115]

__constant__ int weights[9] = {1, 2, 1, 2, 4, 2, 1, 2, 1};

__global__ void blur(const unsigned char *in, unsigned char *out, int width, int height)
{
    int x = threadIdx.x, y = threadIdx.y;
    int sum = 0;
#pragma unroll 1
    for (int k = 0; k < 9; k++) {
        int px = min(max(x + k % 3 - 1, 0), width - 1);
        int py = min(max(y + k / 3 - 1, 0), height - 1);
        sum += weights[k] * in[py * width + px];
    }
    out[y * width + x] = (sum + 8) / 16;
}
