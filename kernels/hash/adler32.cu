// Adler-32: two sums modulo 65,521 over the bytes of a text, one text a thread.
//
// The first text is "Wikipedia", whose checksum is 11e60398.
//
// qdbg-needs: A J L
//
// qdbg: launch adler32<<<1, 2>>>(text = u8[87, 105, 107, 105, 112, 101, 100, 105, 97, 255, 255, 255],
// qdbg:                          start = i32[0, 9, 12], sum = u32[2])
// qdbg: expect sum = u32[300286872, 100467454]

__global__ void adler32(const unsigned char *text, const int *start, unsigned *sum)
{
    unsigned a = 1, b = 0;
#pragma unroll 1
    for (int i = start[threadIdx.x]; i < start[threadIdx.x + 1]; i++) {
        a = (a + text[i]) % 65521u;
        b = (b + a) % 65521u;
    }
    sum[threadIdx.x] = b << 16 | a;
}
