// CRC-32 of messages of any length, a byte at a time, with a table of sixteen words in constant memory.
//
// The first message is "123456789", whose checksum every description of CRC-32 gives: cbf43926.
//
// qdbg-needs: A D H J
//
// qdbg: launch crc32<<<1, 3>>>(text = u8[49, 50, 51, 52, 53, 54, 55, 56, 57, 97, 0, 255, 128],
// qdbg:                        start = i32[0, 9, 10, 13], crc = u32[3])
// qdbg: expect crc = u32[3421780262, 3904355907, 2178787136]

__constant__ unsigned table[16] = {
    0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
    0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
};

__global__ void crc32(const unsigned char *text, const int *start, unsigned *crc)
{
    unsigned c = ~0u;
#pragma unroll 1
    for (int i = start[threadIdx.x]; i < start[threadIdx.x + 1]; i++) {
        c ^= text[i];
        c = c >> 4 ^ table[c & 15];
        c = c >> 4 ^ table[c & 15];
    }
    crc[threadIdx.x] = ~c;
}
