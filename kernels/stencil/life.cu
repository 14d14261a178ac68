// One generation of Conway's Game of Life on a torus, a byte a cell.
//
// The glider of the first launch moves; the blinker of the second one turns.
//
// qdbg-needs: A J
//
// qdbg: launch life<<<1, (6, 5)>>>(now = u8[0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0,
// qdbg:                            0, 0, 0, 0, 0, 0, 0, 0], next = u8[30], width = 6, height = 5)
// qdbg: expect next = u8[0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
//
// qdbg: launch life<<<1, (5, 3)>>>(now = u8[0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0], next = u8[15],
// qdbg:                            width = 5, height = 3)
// qdbg: expect next = u8[0, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 0]

__global__ void life(const unsigned char *now, unsigned char *next, int width, int height)
{
    int x = threadIdx.x, y = threadIdx.y;
    int left = x == 0 ? width - 1 : x - 1, right = x == width - 1 ? 0 : x + 1;
    int up = y == 0 ? height - 1 : y - 1, down = y == height - 1 ? 0 : y + 1;
    int rows[3] = {up * width, y * width, down * width};
    int neighbours = -now[y * width + x];
#pragma unroll
    for (int r = 0; r < 3; r++)
        neighbours += now[rows[r] + left] + now[rows[r] + x] + now[rows[r] + right];
    next[y * width + x] = neighbours == 3 || (neighbours == 2 && now[y * width + x]);
}
