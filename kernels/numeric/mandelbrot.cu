// The Mandelbrot set on a grid of 8 x 4 points: how many rounds until a point gets away.
//
// qdbg-needs: A B F
//
// qdbg: launch mandelbrot<<<(2, 1), (4, 4)>>>(rounds = i32[32], x0 = -2, y0 = -1.2, dx = 0.375, dy = 0.7, most = 20)
// qdbg: expect rounds = i32[1, 1, 2, 3, 3, 3, 2, 2, 1, 3, 4, 5, 20, 20, 20, 3, 1, 5, 11, 20, 20, 20, 20, 4, 1, 2, 3, 3, 4, 20, 4, 2]

__global__ void mandelbrot(int *rounds, float x0, float y0, float dx, float dy, int most)
{
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = threadIdx.y;
    float cx = fmaf((float)px, dx, x0), cy = fmaf((float)py, dy, y0);
    float x = 0.0f, y = 0.0f;
    int n = 0;
#pragma unroll 1
    while (n < most && fmaf(x, x, y * y) <= 4.0f) {
        float next = fmaf(x, x, fmaf(-y, y, cx));
        y = fmaf(2.0f * x, y, cy);
        x = next;
        n++;
    }
    rounds[py * blockDim.x * gridDim.x + px] = n;
}
