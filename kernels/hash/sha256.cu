// SHA-256 of one padded block a thread. The message schedule is kept in local memory as a ring.
//
// The first block holds "abc", the example of FIPS 180-4: ba7816bf...; the second one is the empty text.
//
// qdbg-needs: A D H M N
//
// qdbg: launch sha256<<<1, 2>>>(block = u32[1633837952, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 24,
// qdbg:                         2147483648, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], digest = u32[16])
// qdbg: expect digest = u32[3128432319, 2399260650, 1094795486, 1571693091, 2953011619, 2518121116, 3021012833, 4060091821, 3820012610, 2566659092, 2600203464, 2574235940, 665731556, 1687917388, 2761267483, 2018687061]

__constant__ unsigned K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};
__constant__ unsigned start[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

__device__ unsigned rotate(unsigned x, int by)
{
    return x >> by | x << (32 - by);
}

__global__ void sha256(const unsigned *block, unsigned *digest)
{
    unsigned w[16];
    unsigned a = start[0], b = start[1], c = start[2], d = start[3];
    unsigned e = start[4], f = start[5], g = start[6], h = start[7];
    block += 16 * threadIdx.x;
    digest += 8 * threadIdx.x;
#pragma unroll 1
    for (int t = 0; t < 64; t++) {
        unsigned word;
        if (t < 16) {
            word = block[t];
        } else {
            unsigned x = w[(t + 1) & 15], y = w[(t + 14) & 15];
            unsigned s0 = rotate(x, 7) ^ rotate(x, 18) ^ x >> 3;
            unsigned s1 = rotate(y, 17) ^ rotate(y, 19) ^ y >> 10;
            word = w[t & 15] + s0 + w[(t + 9) & 15] + s1;
        }
        w[t & 15] = word;
        unsigned s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
        unsigned t1 = h + s1 + (g ^ (e & (f ^ g))) + K[t] + word;
        unsigned s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
        unsigned t2 = s0 + ((a & b) | (c & (a | b)));
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    digest[0] = start[0] + a;
    digest[1] = start[1] + b;
    digest[2] = start[2] + c;
    digest[3] = start[3] + d;
    digest[4] = start[4] + e;
    digest[5] = start[5] + f;
    digest[6] = start[6] + g;
    digest[7] = start[7] + h;
}
