// Which lane each lane of a warp reads, for shuffles.txt: its lines are mode, argument, width, 32 lanes.
//   g++ -std=c++17 -O1 -I ../shared/oracle -x c++ tests/data/shuffles.cu -o shuffles && ./shuffles > tests/data/shuffles.txt
#include "cudacpu.h"
#include <cstdio>

const int widths[3] = {32, 16, 8}, arguments[3] = {1, 5, 11};
const char *modes[4] = {"up", "down", "bfly", "idx"};

__global__ void shuffles(int *out)
{
    int lane = threadIdx.x;
    for (int width : widths)
        for (int argument : arguments) {
            out[lane] = __shfl_up_sync(~0u, lane, argument, width);
            out[32 + lane] = __shfl_down_sync(~0u, lane, argument, width);
            out[64 + lane] = __shfl_xor_sync(~0u, lane, argument, width);
            out[96 + lane] = __shfl_sync(~0u, lane, argument, width);
            out += 128;
        }
}

int main()
{
    static int out[9 * 128];
    cudacpu::launch(dim3(1), dim3(32), 0, shuffles, (int *)out);
    const int *next = out;
    for (int width : widths)
        for (int argument : arguments)
            for (const char *mode : modes) {
                printf("%s %d %d", mode, argument, width);
                for (int lane = 0; lane < 32; lane++)
                    printf(" %d", *next++);
                printf("\n");
            }
}
