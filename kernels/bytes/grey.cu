// A picture of four bytes a pixel turned grey: one load and one store of a `uchar4` each.
//
// qdbg-needs: A H J M
//
// qdbg: launch grey<<<1, 6>>>(rgba = u8[24] = random(31), out = u8[24], n = 6)
// qdbg: expect out = u8[221, 221, 221, 109, 64, 64, 64, 111, 124, 124, 124, 17, 163, 163, 163, 139, 87, 87, 87, 45, 38, 38, 38, 210]

__global__ void grey(const uchar4 *rgba, uchar4 *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    uchar4 p = rgba[i];
    unsigned char y = (77 * p.x + 150 * p.y + 29 * p.z) >> 8;
    out[i] = make_uchar4(y, y, y, p.w);
}
