// Generations of Conway's Game of Life on a torus of 16 x 8, a thread a cell, two boards in shared memory.
//
// qdbg-needs: A C
//
// qdbg: launch life<<<1, (16, 8)>>>(board = u32[128] = random(6, 0, 2), generations = 40)
// qdbg: expect board = u32[0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]

#define WIDTH 16
#define HEIGHT 8

__global__ void life(unsigned *board, int generations)
{
    __shared__ unsigned cells[2][HEIGHT][WIDTH];

    int x = threadIdx.x, y = threadIdx.y;
    int left = (x + WIDTH - 1) % WIDTH, right = (x + 1) % WIDTH;
    int up = (y + HEIGHT - 1) % HEIGHT, down = (y + 1) % HEIGHT;
    cells[0][y][x] = board[y * WIDTH + x];
    __syncthreads();
#pragma unroll 1
    for (int g = 0; g < generations; g++) {
        unsigned(*now)[WIDTH] = cells[g & 1];
        unsigned neighbours = now[up][left] + now[up][x] + now[up][right] + now[y][left] + now[y][right] +
                              now[down][left] + now[down][x] + now[down][right];
        cells[~g & 1][y][x] = neighbours == 3 || (neighbours == 2 && now[y][x]);
        __syncthreads();
    }
    board[y * WIDTH + x] = cells[generations & 1][y][x];
}
