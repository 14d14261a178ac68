// Edges of a picture by Sobel: two gradients, the sum of their magnitudes, cut off at 255.
//
// qdbg-needs: A
//
// qdbg: launch sobel<<<1, (5, 5)>>>(in = i32[10, 10, 10, 90, 90, 10, 10, 10, 90, 90, 10, 10, 50, 90, 90,
// qdbg:                             10, 60, 60, 60, 90, 10, 10, 10, 10, 10], out = i32[25], n = 5)
// qdbg: expect out = i32[0, 0, 0, 0, 0, 0, 80, 255, 255, 0, 0, 255, 255, 200, 0, 0, 180, 240, 255, 0, 0, 0, 0, 0, 0]

__global__ void sobel(const int *in, int *out, int n)
{
    int x = threadIdx.x, y = threadIdx.y;
    int i = y * n + x;
    if (x == 0 || y == 0 || x == n - 1 || y == n - 1) {
        out[i] = 0;
        return;
    }
    const int *p = in + i;
    int gx = p[-n + 1] + 2 * p[1] + p[n + 1] - p[-n - 1] - 2 * p[-1] - p[n - 1];
    int gy = p[n - 1] + 2 * p[n] + p[n + 1] - p[-n - 1] - 2 * p[-n] - p[-n + 1];
    out[i] = min(abs(gx) + abs(gy), 255);
}
