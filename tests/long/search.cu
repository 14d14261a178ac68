// Breadth-first search on a grid of 16 x 16 with walls: the frontier is a queue, filled by atomics.
//
// Walls and distances do not depend on the order in which the threads come to a cell.
//
// qdbg-needs: A C G
//
// qdbg: launch search<<<1, 32>>>(noise = u32[256] = random(14, 0, 4), distance = i32[256] = -1)
// qdbg: expect distance = i32[0, 1, 2, 3, 4, 5, 6, -1, 16, 17, 18, 19, 20, 21, 22, 23, 1, -1, 3, 4, 5, -1, -1, 14, 15, -1, 17, -1, 19, 20, 21, 22, 2, 3, 4, 5, 6, -1, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 3, -1, 5, -1, 7, -1, 11, -1, 15, 16, -1, 18, -1, 20, 21, 22, 4, 5, 6, 7, 8, 9, 10, 11, -1, 17, -1, 19, 20, 21, 22, 23, 5, -1, 7, 8, -1, 10, 11, 12, -1, -1, -1, 20, -1, 22, 23, -1, -1, -1, 8, -1, 12, 11, -1, -1, 18, 19, -1, -1, 22, 23, -1, 25, 13, -1, 9, 10, 11, -1, -1, 16, 17, 18, 19, 20, 21, 22, 23, 24, 12, 11, 10, 11, 12, 13, 14, 15, 16, 17, 18, -1, 22, -1, 24, 25, 13, 12, 11, 12, 13, -1, -1, 16, -1, 18, -1, 24, 23, 24, 25, 26, 14, 13, 12, 13, 14, 15, -1, 17, -1, -1, 22, 23, 24, -1, -1, 27, 15, -1, -1, -1, 15, 16, 17, 18, 19, 20, 21, 22, 23, -1, 29, 28, 16, 17, 18, 17, 16, -1, 18, 19, -1, 21, 22, 23, -1, -1, -1, -1, -1, 18, 19, 18, 17, 18, 19, 20, 21, 22, 23, 24, 25, -1, 31, 32, -1, 19, -1, 19, 18, 19, 20, 21, 22, 23, 24, 25, -1, 29, 30, 31, -1, 20, 21, -1, -1, 20, -1, 22, -1, -1, 25, 26, 27, 28, 29, 30]

#define SIZE 16
#define CELLS (SIZE * SIZE)

__global__ void search(const unsigned *noise, int *distance)
{
    __shared__ int queue[CELLS], end;

    int first = 0, last = 1;
    if (threadIdx.x == 0) {
        queue[0] = 0;
        distance[0] = 0;
        end = 1;
    }
    __syncthreads();
    while (first < last) {
#pragma unroll 1
        for (int i = first + threadIdx.x; i < last; i += blockDim.x) {
            int cell = queue[i], x = cell % SIZE, y = cell / SIZE;
#pragma unroll 1
            for (int side = 0; side < 4; side++) {
                int u = x + (side == 0) - (side == 1), v = y + (side == 2) - (side == 3);
                if (u < 0 || v < 0 || u >= SIZE || v >= SIZE || noise[v * SIZE + u] == 0)
                    continue;
                if (atomicCAS(&distance[v * SIZE + u], -1, distance[cell] + 1) == -1)
                    queue[atomicAdd(&end, 1)] = v * SIZE + u;
            }
        }
        __syncthreads();
        first = last;
        last = end;
        __syncthreads();
    }
}
