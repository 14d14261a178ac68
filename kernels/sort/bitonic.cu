// Bitonic sort of a block of two warps in shared memory.
//
// qdbg-needs: A C
//
// qdbg: launch bitonic<<<1, 64>>>(data = i32[64] = random(8, -500, 500))
// qdbg: expect data = i32[-500, -498, -451, -401, -400, -400, -392, -376, -366, -366, -356, -337, -328, -324, -302, -295, -288, -257, -243, -223, -201, -186, -152, -144, -120, -91, -87, -65, -65, -35, -34, 5, 7, 9, 21, 34, 43, 64, 66, 91, 109, 114, 122, 132, 167, 170, 180, 183, 199, 227, 249, 260, 264, 294, 302, 317, 319, 325, 347, 356, 409, 426, 430, 440]

__global__ void bitonic(int *data)
{
    __shared__ int s[64];

    int i = threadIdx.x, n = blockDim.x;
    s[i] = data[i];
    __syncthreads();
#pragma unroll 1
    for (int size = 2; size <= n; size <<= 1) {
#pragma unroll 1
        for (int stride = size >> 1; stride > 0; stride >>= 1) {
            int partner = i ^ stride;
            if (partner > i) {
                int a = s[i], b = s[partner];
                bool up = (i & size) == 0;
                if ((a > b) == up) {
                    s[i] = b;
                    s[partner] = a;
                }
            }
            __syncthreads();
        }
    }
    data[i] = s[i];
}
