// A one-dimensional stencil of radius 2; every block keeps its elements and a halo in shared memory.
//
// qdbg-needs: A C
//
// qdbg: launch stencil_1d<<<2, 8>>>(in = i32[16] = random(4, 0, 100), out = i32[16], n = 16)
// qdbg: expect out = i32[129, 211, 252, 219, 229, 248, 255, 243, 292, 303, 301, 264, 244, 155, 130, 66]

#define BLOCK 8
#define RADIUS 2

__global__ void stencil_1d(const int *in, int *out, int n)
{
    __shared__ int s[BLOCK + 2 * RADIUS];

    int i = blockIdx.x * BLOCK + threadIdx.x;
    int at = threadIdx.x + RADIUS;
    s[at] = in[i];
    if (threadIdx.x < RADIUS) {
        s[at - RADIUS] = i >= RADIUS ? in[i - RADIUS] : 0;
        s[at + BLOCK] = i + BLOCK < n ? in[i + BLOCK] : 0;
    }
    __syncthreads();

    int sum = 0;
#pragma unroll
    for (int offset = -RADIUS; offset <= RADIUS; offset++)
        sum += s[at + offset];
    out[i] = sum;
}
