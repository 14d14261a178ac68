// Base64: every thread turns three bytes into four letters, the last ones may be `=`.
//
// qdbg-needs: A J
//
// qdbg: launch base64<<<1, 4>>>(in = u8[72, 101, 108, 108, 111, 44, 32, 71, 80, 85], n = 10, out = u8[16])
// qdbg: expect out = u8[83, 71, 86, 115, 98, 71, 56, 115, 73, 69, 100, 81, 86, 81, 61, 61]

__device__ unsigned char letter(unsigned six)
{
    if (six < 26)
        return 'A' + six;
    if (six < 52)
        return 'a' + six - 26;
    if (six < 62)
        return '0' + six - 52;
    return six == 62 ? '+' : '/';
}

__global__ void base64(const unsigned char *in, int n, unsigned char *out)
{
    int first = 3 * threadIdx.x;
    int left = n - first;
    if (left <= 0)
        return;
    unsigned bits = in[first] << 16;
    if (left > 1)
        bits |= in[first + 1] << 8;
    if (left > 2)
        bits |= in[first + 2];
    out += 4 * threadIdx.x;
#pragma unroll 1
    for (int k = 0; k < 4; k++)
        out[k] = k <= left ? letter(bits >> (18 - 6 * k) & 63) : '=';
}
