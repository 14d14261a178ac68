// `return`, `break` and `continue` that depend on the data.
//
// Thread i adds up the positive words of its row. It skips the negative ones, stops at a zero and
// leaves without any result if it meets the poison value.
//
// qdbg-needs: A
//
// qdbg: launch early_exit<<<1, 4>>>(rows = i32[1, 2, 3, 4, 5, -1, 7, -2, 8, 0, 9, 9, 6, 999, 1, 1],
// qdbg:                             out = i32[4] = -1, width = 4)
// qdbg: expect out = i32[10, 12, 8, -1]

#define POISON 999

__global__ void early_exit(const int *rows, int *out, int width)
{
    const int *row = rows + threadIdx.x * width;
    int sum = 0;
#pragma unroll 1
    for (int k = 0; k < width; k++) {
        int v = row[k];
        if (v == POISON)
            return;
        if (v == 0)
            break;
        if (v < 0)
            continue;
        sum += v;
    }
    out[threadIdx.x] = sum;
}
