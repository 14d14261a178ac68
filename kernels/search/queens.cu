// How many ways to place n queens: thread i puts the first queen in column i and tries the rest depth-first.
//
// The columns that are still to be tried in each row are kept on a stack in local memory.
//
// qdbg-needs: A G N
//
// qdbg: launch queens<<<1, 5>>>(solutions = i32[5], total = i32[1], n = 5)
// qdbg: expect solutions = i32[2, 2, 2, 2, 2]
// qdbg: expect total = i32[10]

__global__ void queens(int *solutions, int *total, int n)
{
    unsigned open[10], columns[10], left[10], right[10];
    unsigned board = (1u << n) - 1;
    unsigned first = 1u << threadIdx.x;
    int row = 1, found = 0;
    columns[1] = first;
    left[1] = first << 1;
    right[1] = first >> 1;
    open[1] = board & ~(columns[1] | left[1] | right[1]);
#pragma unroll 1
    while (row > 0) {
        unsigned place = open[row] & -open[row];
        if (place == 0) {
            row--;
            continue;
        }
        open[row] ^= place;
        if (row == n - 1) {
            found++;
            continue;
        }
        columns[row + 1] = columns[row] | place;
        left[row + 1] = (left[row] | place) << 1;
        right[row + 1] = (right[row] | place) >> 1;
        row++;
        open[row] = board & ~(columns[row] | left[row] | right[row]);
    }
    solutions[threadIdx.x] = found;
    atomicAdd(total, found);
}
