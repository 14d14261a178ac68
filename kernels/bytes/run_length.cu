// Run-length decoding: thread i writes its run behind those of the threads before it.
//
// qdbg-needs: A J
//
// qdbg: launch decode<<<1, 5>>>(length = u8[3, 0, 1, 5, 2], value = i8[-7, 1, 120, 0, -128], out = i8[12] = 99)
// qdbg: expect out = i8[-7, -7, -7, 120, 0, 0, 0, 0, 0, -128, -128, 99]

__global__ void decode(const unsigned char *length, const signed char *value, signed char *out)
{
    int start = 0;
#pragma unroll 1
    for (int k = 0; k < threadIdx.x; k++)
        start += length[k];
    signed char v = value[threadIdx.x];
#pragma unroll 1
    for (int k = 0; k < length[threadIdx.x]; k++)
        out[start + k] = v;
}
