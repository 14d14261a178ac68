// Transpose of a small matrix, one element a thread, with a two-dimensional block.
//
// qdbg-needs: A
//
// qdbg: launch transpose<<<1, (4, 4)>>>(in = i32[16] = iota, out = i32[16], width = 4, height = 4)
// qdbg: expect out = i32[0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]
//
// qdbg: launch transpose<<<(2, 1), (4, 4)>>>(in = i32[18] = iota, out = i32[18], width = 6, height = 3)
// qdbg: expect out = i32[0, 6, 12, 1, 7, 13, 2, 8, 14, 3, 9, 15, 4, 10, 16, 5, 11, 17]

__global__ void transpose(const int *in, int *out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height)
        out[x * height + y] = in[y * width + x];
}
