// Transposition through a tile in shared memory, padded by a column against bank conflicts.
//
// A tile of 8 x 8 is moved by 8 x 4 threads, two rows each.
//
// qdbg-needs: A C
//
// qdbg: launch transpose_tile<<<(2, 1), (8, 4)>>>(in = i32[96] = iota, out = i32[96], width = 12, height = 8)
// qdbg: expect out = i32[0, 12, 24, 36, 48, 60, 72, 84, 1, 13, 25, 37, 49, 61, 73, 85, 2, 14, 26, 38, 50, 62, 74, 86, 3, 15, 27, 39, 51, 63, 75, 87, 4, 16, 28, 40, 52, 64, 76, 88, 5, 17, 29, 41, 53, 65, 77, 89, 6, 18, 30, 42, 54, 66, 78, 90, 7, 19, 31, 43, 55, 67, 79, 91, 8, 20, 32, 44, 56, 68, 80, 92, 9, 21, 33, 45, 57, 69, 81, 93, 10, 22, 34, 46, 58, 70, 82, 94, 11, 23, 35, 47, 59, 71, 83, 95]

#define TILE 8
#define ROWS 4

__global__ void transpose_tile(const int *in, int *out, int width, int height)
{
    __shared__ int tile[TILE][TILE + 1];

    int x = blockIdx.x * TILE + threadIdx.x;
    int y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (x < width && y + j < height)
            tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
    __syncthreads();

    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (x < height && y + j < width)
            out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}
