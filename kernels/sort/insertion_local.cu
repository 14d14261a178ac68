// Median of a sliding window: every thread sorts a small array of its own, which lives in local memory.
//
// qdbg-needs: A N
//
// qdbg: launch median<<<1, 8>>>(x = i32[7, 1, 30, 2, 2, 9, -4, 15, 6, 6, 0, 3], out = i32[8])
// qdbg: expect out = i32[2, 2, 2, 2, 6, 6, 6, 6]

#define WINDOW 5

__global__ void median(const int *x, int *out)
{
    int window[WINDOW];
    int used = 0;
#pragma unroll 1
    for (int k = 0; k < WINDOW; k++) {
        int v = x[threadIdx.x + k];
        int at = used++;
#pragma unroll 1
        while (at > 0 && window[at - 1] > v) {
            window[at] = window[at - 1];
            at--;
        }
        window[at] = v;
    }
    out[threadIdx.x] = window[WINDOW / 2];
}
