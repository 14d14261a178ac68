// Counting sort of digits: a histogram by atomics, a prefix sum by one thread, a stable scatter by rank.
//
// qdbg-needs: A C G J
//
// qdbg: launch counting<<<1, 32>>>(in = u8[32] = random(13, 0, 10), out = u8[32])
// qdbg: expect out = u8[0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 4, 4, 4, 5, 6, 6, 6, 7, 7, 7, 7, 7, 8, 8, 9, 9, 9]

__global__ void counting(const unsigned char *in, unsigned char *out)
{
    __shared__ int count[10], start[10];

    int tid = threadIdx.x;
    if (tid < 10)
        count[tid] = 0;
    __syncthreads();
    int digit = in[tid];
    atomicAdd(&count[digit], 1);
    __syncthreads();
    if (tid == 0) {
        int sum = 0;
#pragma unroll 1
        for (int d = 0; d < 10; d++) {
            start[d] = sum;
            sum += count[d];
        }
    }
    __syncthreads();
    int rank = 0;
#pragma unroll 1
    for (int j = 0; j < tid; j++)
        rank += in[j] == digit;
    out[start[digit] + rank] = digit;
}
