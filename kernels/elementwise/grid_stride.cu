// A grid-stride loop: two blocks of four threads work on any number of elements.
//
// The index is a `size_t`, as careful people write it, so the loop compares 64-bit numbers.
//
// qdbg-needs: A D L
//
// qdbg: launch scale<<<2, 4>>>(x = i32[19] = iota, y = i32[19], factor = -3, n = 19)
// qdbg: expect y = i32[0, -3, -6, -9, -12, -15, -18, -21, -24, -27, -30, -33, -36, -39, -42, -45, -48, -51, -54]

__global__ void scale(const int *x, int *y, int factor, size_t n)
{
    size_t stride = (size_t)gridDim.x * blockDim.x;
#pragma unroll 1
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
        y[i] = factor * x[i];
}
