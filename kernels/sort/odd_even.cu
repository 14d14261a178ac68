// Odd-even transposition sort of one block's elements in shared memory.
//
// In even rounds the pairs (0,1), (2,3), ... are put in order, in odd rounds (1,2), (3,4), ...
//
// qdbg-needs: A C
//
// qdbg: launch odd_even_sort<<<1, 8>>>(data = i32[5, -2, 9, 0, 5, -7, 3, 1])
// qdbg: expect data = i32[-7, -2, 0, 1, 3, 5, 5, 9]

__global__ void odd_even_sort(int *data)
{
    __shared__ int s[8];

    int tid = threadIdx.x;
    int n = blockDim.x;
    s[tid] = data[tid];
    __syncthreads();

#pragma unroll 1
    for (int round = 0; round < n; round++) {
        if ((tid & 1) == (round & 1) && tid + 1 < n) {
            int left = s[tid], right = s[tid + 1];
            if (left > right) {
                s[tid] = right;
                s[tid + 1] = left;
            }
        }
        __syncthreads();
    }
    data[tid] = s[tid];
}
