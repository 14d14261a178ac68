// Pi from random points: each thread throws some, and those within the circle are counted.
//
// qdbg-needs: A B F G
//
// qdbg: launch monte_carlo<<<2, 32>>>(inside = i32[1], throws = 10, seed = 2024)
// qdbg: expect inside = i32[519]

__global__ void monte_carlo(int *inside, int throws, unsigned seed)
{
    unsigned state = seed + 747796405u * (blockIdx.x * blockDim.x + threadIdx.x);
    int hits = 0;
#pragma unroll 1
    for (int k = 0; k < throws; k++) {
        state = state * 1664525u + 1013904223u;
        float x = (float)(state >> 8) * 5.9604644775390625e-8f;
        state = state * 1664525u + 1013904223u;
        float y = (float)(state >> 8) * 5.9604644775390625e-8f;
        hits += fmaf(x, x, y * y) <= 1.0f;
    }
    atomicAdd(inside, hits);
}
