// Indirect addressing both ways: gathered[i] = data[index[i]], scattered[index[i]] = data[i].
//
// The addresses are themselves loaded, so neighbouring lanes touch words that are far apart.
//
// qdbg-needs: A
//
// qdbg: launch gather_scatter<<<1, 8>>>(data = i32[10, 11, 12, 13, 14, 15, 16, 17],
// qdbg:                                 index = i32[3, 7, 0, 5, 1, 6, 2, 4], gathered = i32[8],
// qdbg:                                 scattered = i32[8], n = 8)
// qdbg: expect gathered = i32[13, 17, 10, 15, 11, 16, 12, 14]
// qdbg: expect scattered = i32[12, 14, 16, 10, 17, 13, 15, 11]

__global__ void gather_scatter(const int *data, const int *index, int *gathered, int *scattered, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;

    int j = index[i];
    gathered[i] = data[j];
    scattered[j] = data[i];
}
