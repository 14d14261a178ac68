// Three levels of branches, each taken by some of the lanes, with a store on every path.
//
// The stores keep the compiler from turning the branches into selects.
//
// qdbg-needs: A
//
// qdbg: launch nested<<<1, 8>>>(x = i32[-5, 12, 3, 0, 100, -1, 8, 51], out = i32[8], trace = i32[8])
// qdbg: expect out = i32[5, 48, 86, 85, 50, 1, 93, 0]
// qdbg: expect trace = i32[1, 11, 102, 103, 34, 6, 106, 37]

__global__ void nested(const int *x, int *out, int *trace)
{
    int i = threadIdx.x;
    int v = x[i];

    if (v < 0) {
        trace[i] = 1;
        if (v & 1) {
            out[i] = -v;
        } else {
            out[i] = v * v;
            trace[i] += 2;
        }
    } else if (v > 10) {
        trace[i] = 10;
        if (v > 50) {
            if (v == 51)
                out[i] = 0;
            else
                out[i] = v - 50;
            trace[i] += 20;
        } else {
            out[i] = v << 2;
        }
    } else {
        trace[i] = 100;
        out[i] = v ^ 0x55;
    }
    trace[i] += i;
}
