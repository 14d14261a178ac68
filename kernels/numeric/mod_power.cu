// Powers modulo a 32-bit number: 64-bit products and remainders. With base 2 it is Fermat's test.
//
// qdbg-needs: A D E L
//
// qdbg: launch mod_power<<<1, 4>>>(base = u32[2, 3, 2, 123456789], exponent = u32[1000000006, 200, 340, 987654321],
// qdbg:                            modulus = u32[1000000007, 13, 341, 4294967291], out = u32[4])
// qdbg: expect out = u32[1, 9, 1, 4114726592]

__global__ void mod_power(const unsigned *base, const unsigned *exponent, const unsigned *modulus, unsigned *out)
{
    unsigned m = modulus[threadIdx.x];
    unsigned long long b = base[threadIdx.x] % m, result = 1;
#pragma unroll 1
    for (unsigned e = exponent[threadIdx.x]; e; e >>= 1) {
        if (e & 1)
            result = result * b % m;
        b = b * b % m;
    }
    out[threadIdx.x] = result;
}
