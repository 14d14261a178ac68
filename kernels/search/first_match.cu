// First occurrence of a two-word pattern in a text: thread i tries every fourth position.
//
// qdbg-needs: A
//
// qdbg: launch first_match<<<1, 4>>>(text = i32[1, 2, 1, 3, 1, 2, 2, 1, 3, 3, 1, 2], n = 12, first = 1,
// qdbg:                              second = 3, found = i32[4])
// qdbg: expect found = i32[-1, -1, 2, 7]

__global__ void first_match(const int *text, int n, int first, int second, int *found)
{
    int where = -1;
#pragma unroll 1
    for (int i = threadIdx.x; i + 1 < n; i += blockDim.x) {
        if (text[i] == first && text[i + 1] == second) {
            where = i;
            break;
        }
    }
    found[threadIdx.x] = where;
}
