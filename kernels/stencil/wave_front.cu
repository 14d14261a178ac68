// Levenshtein distance of two words by anti-diagonals: each needs the two before it, so a barrier stands
// between any two.
//
// qdbg-needs: A C J
//
// qdbg: launch edit_distance<<<1, 8>>>(a = u8[107, 105, 116, 116, 101, 110],
// qdbg:                                b = u8[115, 105, 116, 116, 105, 110, 103], la = 6, lb = 7, out = i32[1])
// qdbg: expect out = i32[3]

#define MOST 8

__global__ void edit_distance(const unsigned char *a, const unsigned char *b, int la, int lb, int *out)
{
    __shared__ int d[MOST][MOST];

    int j = threadIdx.x;
    d[0][j] = j;
    d[j][0] = j;
#pragma unroll 1
    for (int diagonal = 2; diagonal <= la + lb; diagonal++) {
        __syncthreads();
        int i = diagonal - j;
        if (j >= 1 && j <= lb && i >= 1 && i <= la) {
            int change = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            d[i][j] = min(change, min(d[i - 1][j], d[i][j - 1]) + 1);
        }
    }
    __syncthreads();
    if (j == 0)
        *out = d[la][lb];
}
