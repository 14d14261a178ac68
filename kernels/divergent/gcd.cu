// Greatest common divisor by repeated subtraction, one pair of numbers a thread.
//
// qdbg-needs: A
//
// qdbg: launch gcd<<<1, 4>>>(a = u32[48, 17, 100, 81], b = u32[36, 5, 75, 27], out = u32[4])
// qdbg: expect out = u32[12, 1, 25, 27]

__global__ void gcd(const unsigned *a, const unsigned *b, unsigned *out)
{
    unsigned x = a[threadIdx.x], y = b[threadIdx.x];
#pragma unroll 1
    while (x != y) {
        if (x > y)
            x -= y;
        else
            y -= x;
    }
    out[threadIdx.x] = x;
}
