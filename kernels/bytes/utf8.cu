// How many characters, and how many bytes of each kind, has a text in UTF-8? One vote a question.
//
// qdbg-needs: A J K M
//
// qdbg: launch utf8<<<1, 32>>>(text = u8[71, 114, 195, 188, 195, 159, 101, 44, 32, 226, 130, 172, 32, 240,
// qdbg:                        159, 152, 128, 33], n = 18, characters = i32[1], ascii = i32[1], longest = i32[1])
// qdbg: expect characters = i32[11]
// qdbg: expect ascii = i32[7]
// qdbg: expect longest = i32[4]

#define FULL 0xffffffffu

__global__ void utf8(const unsigned char *text, int n, int *characters, int *ascii, int *longest)
{
    int i = threadIdx.x;
    unsigned char c = i < n ? text[i] : 0x80;
    int length = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 0;
    int starts = __popc(__ballot_sync(FULL, length > 0));
    int plain = __popc(__ballot_sync(FULL, length == 1));
    for (int offset = 16; offset > 0; offset >>= 1)
        length = max(length, __shfl_xor_sync(FULL, length, offset));
    if (i == 0) {
        *characters = starts;
        *ascii = plain;
        *longest = length;
    }
}
