// Two tracks of 16-bit sound mixed: the sum is cut off where it does not fit.
//
// qdbg-needs: A J
//
// qdbg: launch mix<<<1, 8>>>(a = i16[0, 1000, 32767, -32768, 20000, -20000, 5, -1],
// qdbg:                      b = i16[0, -1, 32767, -32768, 20000, -20000, -5, 1], out = i16[8],
// qdbg:                      peak = u16[8], n = 8)
// qdbg: expect out = i16[0, 999, 32767, -32768, 32767, -32768, 0, 0]
// qdbg: expect peak = u16[0, 999, 32767, 32768, 32767, 32768, 0, 0]

__global__ void mix(const short *a, const short *b, short *out, unsigned short *peak, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int sum = a[i] + b[i];
    short cut = max(-32768, min(sum, 32767));
    out[i] = cut;
    peak[i] = abs((int)cut);
}
