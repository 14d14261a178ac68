// Heat in a plate: steps of the five-point stencil between two buffers in shared memory, a fixed edge.
//
// qdbg-needs: A B C
//
// qdbg: launch heat<<<1, (6, 5)>>>(t = f32[30] = random(131, 0, 100), rate = 0.2, steps = 3)
// qdbg: expect t = f32[55.579613, 91.375046, 63.202835, 46.309692, 38.55646, 53.991245, 57.27676, 70.649734, 66.228165, 60.954674, 62.34269, 96.88461, 89.45512, 65.34975, 60.533546, 57.739407, 49.92902, 16.527891, 69.57516, 44.85891, 52.125713, 59.803844, 68.38058, 92.571106, 26.963573, 0.025105476, 51.47083, 70.578285, 82.13189, 73.72026]

#define WIDTH 6
#define HEIGHT 5

__global__ void heat(float *t, float rate, int steps)
{
    __shared__ float s[2][HEIGHT][WIDTH];

    int x = threadIdx.x, y = threadIdx.y;
    bool inside = x > 0 && y > 0 && x < WIDTH - 1 && y < HEIGHT - 1;
    float v = t[y * WIDTH + x];
    s[0][y][x] = s[1][y][x] = v;
    int now = 0;
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        __syncthreads();
        if (inside) {
            float around = (s[now][y][x - 1] + s[now][y][x + 1]) + (s[now][y - 1][x] + s[now][y + 1][x]);
            v = fmaf(rate, fmaf(-4.0f, v, around), v);
            s[1 - now][y][x] = v;
        }
        now = 1 - now;
    }
    t[y * WIDTH + x] = v;
}
