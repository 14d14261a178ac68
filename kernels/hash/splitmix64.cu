// Random numbers of 64 bits by splitmix64, and numbers below a bound by the high half of a product.
//
// qdbg-needs: A D L M
//
// qdbg: launch splitmix64<<<1, 4>>>(out = u64[4], below = u64[4], seed = 1234567, bound = 1000000000000)
// qdbg: expect out = u64[6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
// qdbg: expect below = u64[350079542021, 173644096670, 532207304062, 249007657382]

__global__ void splitmix64(unsigned long long *out, unsigned long long *below, unsigned long long seed,
                           unsigned long long bound)
{
    unsigned long long z = seed + (threadIdx.x + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    out[threadIdx.x] = z;
    below[threadIdx.x] = __umul64hi(z, bound);
}
