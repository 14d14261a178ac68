// Sum and maximum of an array by thread 0 alone, while the other threads of the block leave.
//
// qdbg-needs: A
//
// qdbg: launch serial_sum<<<1, 4>>>(x = i32[4, -8, 15, 16, -23, 42, 7, 1, 0, 100000, -1, 3], n = 12,
// qdbg:                             sum = i32[1], largest = i32[1])
// qdbg: expect sum = i32[100056]
// qdbg: expect largest = i32[100000]

__global__ void serial_sum(const int *x, int n, int *sum, int *largest)
{
    if (threadIdx.x != 0)
        return;

    int total = 0;
    int best = x[0];
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        total += x[i];
        best = max(best, x[i]);
    }
    *sum = total;
    *largest = best;
}
