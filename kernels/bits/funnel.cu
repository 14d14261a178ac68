// Funnel shifts: 32 bits out of a pair of words, and rotations by every lane's own distance.
//
// qdbg-needs: A M
//
// qdbg: launch funnel<<<1, 6>>>(low = u32[1, 2, 3735928559, 305419896, 4294967295, 7],
// qdbg:                         high = u32[0, 2147483648, 1, 2596069104, 0, 9], by = u32[0, 1, 4, 16, 31, 37],
// qdbg:                         left = u32[6], right = u32[6], rotated = u32[6], clamped = u32[6])
// qdbg: expect left = u32[0, 0, 29, 3740275252, 2147483647, 288]
// qdbg: expect right = u32[1, 1, 501930990, 3740275252, 1, 1207959552]
// qdbg: expect rotated = u32[1, 4, 3940282109, 1450709556, 4294967295, 224]
// qdbg: expect clamped = u32[1, 1, 501930990, 3740275252, 1, 9]

__global__ void funnel(const unsigned *low, const unsigned *high, const unsigned *by, unsigned *left,
                       unsigned *right, unsigned *rotated, unsigned *clamped)
{
    int i = threadIdx.x;
    left[i] = __funnelshift_l(low[i], high[i], by[i]);
    right[i] = __funnelshift_r(low[i], high[i], by[i]);
    rotated[i] = __funnelshift_l(low[i], low[i], by[i]);
    clamped[i] = __funnelshift_rc(low[i], high[i], by[i]);
}
