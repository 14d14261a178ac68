// Inclusive prefix sum of two warps by shuffles; the first warp's total goes to the second.
//
// qdbg-needs: A C K
//
// qdbg: launch warp_scan<<<1, 64>>>(in = i32[64] = random(11, 0, 10), out = i32[64])
// qdbg: expect out = i32[3, 8, 17, 17, 25, 27, 33, 41, 41, 47, 51, 54, 55, 56, 57, 63, 71, 75, 80, 80, 80, 83, 87, 96, 102, 104, 112, 114, 115, 119, 121, 129, 136, 142, 144, 147, 154, 162, 167, 169, 178, 185, 186, 190, 196, 205, 210, 210, 212, 216, 224, 225, 229, 231, 238, 240, 240, 248, 253, 258, 258, 265, 274, 274]

__global__ void warp_scan(const int *in, int *out)
{
    __shared__ int total;

    int lane = threadIdx.x & 31;
    int v = in[threadIdx.x];
#pragma unroll 1
    for (int offset = 1; offset < 32; offset <<= 1) {
        int other = __shfl_up_sync(0xffffffffu, v, offset);
        if (lane >= offset)
            v += other;
    }
    if (threadIdx.x == 31)
        total = v;
    __syncthreads();
    if (threadIdx.x >= 32)
        v += total;
    out[threadIdx.x] = v;
}
