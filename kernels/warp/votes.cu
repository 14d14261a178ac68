// All, any, and who? Votes of the whole warp, and of the half that a branch has left together.
//
// qdbg-needs: A M
//
// qdbg: launch votes<<<1, 32>>>(x = i32[32] = iota, all = i32[32], any = i32[32], ballot = u32[32])
// qdbg: expect all = i32[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
// qdbg: expect any = i32[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]
// qdbg: expect ballot = u32[43690, 43690, 43690, 43690, 43690, 43690, 43690, 43690, 43690, 43690, 43690, 43690, 43690, 43690, 43690, 43690, 1227096064, 1227096064, 1227096064, 1227096064, 1227096064, 1227096064, 1227096064, 1227096064, 1227096064, 1227096064, 1227096064, 1227096064, 1227096064, 1227096064, 1227096064, 1227096064]

__global__ void votes(const int *x, int *all, int *any, unsigned *ballot)
{
    int lane = threadIdx.x;
    int v = x[lane];
    all[lane] = __all_sync(0xffffffffu, v >= 0) + 2 * __all_sync(0xffffffffu, v > 0);
    if (lane < 16) {
        any[lane] = __any_sync(0x0000ffffu, v == 15) + 2 * __any_sync(0x0000ffffu, v == 16);
        ballot[lane] = __ballot_sync(0x0000ffffu, v & 1);
    } else {
        any[lane] = __any_sync(0xffff0000u, v == 15) + 2 * __any_sync(0xffff0000u, v == 16);
        ballot[lane] = __ballot_sync(0xffff0000u, v % 3 == 0);
    }
}
