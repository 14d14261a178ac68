// A tile of 8 x 4 transposed by each warp in its own part of shared memory, kept in order by `__syncwarp`.
//
// qdbg-needs: A C K
//
// qdbg: launch exchange<<<1, 64>>>(x = i32[64] = iota, out = i32[64])
// qdbg: expect out = i32[31, 27, 23, 19, 15, 11, 7, 3, 30, 26, 22, 18, 14, 10, 6, 2, 29, 25, 21, 17, 13, 9, 5, 1, 28, 24, 20, 16, 12, 8, 4, 0, 63, 59, 55, 51, 47, 43, 39, 35, 62, 58, 54, 50, 46, 42, 38, 34, 61, 57, 53, 49, 45, 41, 37, 33, 60, 56, 52, 48, 44, 40, 36, 32]

__global__ void exchange(const int *x, int *out)
{
    __shared__ int s[2][32];

    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    s[warp][lane] = x[threadIdx.x];
    __syncwarp();
    int v = s[warp][lane % 8 * 4 + lane / 8];
    __syncwarp();
    s[warp][lane] = v;
    __syncwarp();
    out[threadIdx.x] = s[warp][31 - lane];
}
