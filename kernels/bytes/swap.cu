// The bytes of words turned round and chosen freely, one `prmt` each.
//
// qdbg-needs: A D M
//
// qdbg: launch swap<<<1, 4>>>(x = u32[305419896, 3735928559, 1, 4278190080], swapped = u32[4],
// qdbg:                       halves = u32[4], mixed = u32[4])
// qdbg: expect swapped = u32[2018915346, 4022250974, 16777216, 255]
// qdbg: expect halves = u32[1450709556, 3203391149, 65536, 65280]
// qdbg: expect mixed = u32[3727998584, 11337967, 4278190081, 302011904]

__global__ void swap(const unsigned *x, unsigned *swapped, unsigned *halves, unsigned *mixed)
{
    int i = threadIdx.x;
    swapped[i] = __byte_perm(x[i], 0, 0x0123);
    halves[i] = __byte_perm(x[i], 0, 0x1032);
    mixed[i] = __byte_perm(x[i], x[(i + 1) & 3], 0x7250);
}
