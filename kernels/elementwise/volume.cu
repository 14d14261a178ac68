// Every thread of a three-dimensional grid of three-dimensional blocks writes down where it is.
//
// The volume is 4 x 3 x 4 and the blocks are 2 x 2 x 2, so the last blocks stick out in y.
//
// qdbg-needs: A
//
// qdbg: launch volume<<<(2, 2, 2), (2, 2, 2)>>>(out = i32[48] = -1, nx = 4, ny = 3, nz = 4)
// qdbg: expect out = i32[0, 1, 10, 11, 2, 3, 12, 13, 20, 21, 30, 31, 4, 5, 14, 15, 6, 7, 16, 17, 24, 25, 34, 35, 40, 41, 50, 51, 42, 43, 52, 53, 60, 61, 70, 71, 44, 45, 54, 55, 46, 47, 56, 57, 64, 65, 74, 75]

__global__ void volume(int *out, int nx, int ny, int nz)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= nx || y >= ny || z >= nz)
        return;
    int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    out[(z * ny + y) * nx + x] = 10 * block + thread;
}
