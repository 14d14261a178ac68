// FNV-1a with 64 bits over texts of bytes, one text a thread.
//
// qdbg-needs: A D J L
//
// qdbg: launch fnv1a_64<<<1, 3>>>(text = u8[97, 102, 111, 111, 98, 97, 114, 0], start = i32[0, 1, 7, 8],
// qdbg:                           hash = u64[3])
// qdbg: expect hash = u64[12638187200555641996, 9625390261332436968, 12638153115695167455]

__global__ void fnv1a_64(const unsigned char *text, const int *start, unsigned long long *hash)
{
    unsigned long long h = 14695981039346656037ull;
#pragma unroll 1
    for (int i = start[threadIdx.x]; i < start[threadIdx.x + 1]; i++) {
        h ^= text[i];
        h *= 1099511628211ull;
    }
    hash[threadIdx.x] = h;
}
