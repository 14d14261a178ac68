// Bit fields of a struct read and written: the compiler extracts with sign and inserts.
//
// qdbg-needs: A H J M
//
// qdbg: launch fields<<<1, 4>>>(packed = u32[2863311530, 4294967295, 0, 305419896], sum = i32[4], delta = 3)
// qdbg: expect packed = u32[1432349378, 688151, 344088, 3989902992]
// qdbg: expect sum = i32[-3412, 5, 0, 1301]

struct Packed {
    unsigned kind : 3;
    int temperature : 11;
    unsigned flags : 5;
    int offset : 13;
};

__global__ void fields(Packed *packed, int *sum, int delta)
{
    Packed p = packed[threadIdx.x];
    sum[threadIdx.x] = p.kind + p.temperature + p.offset;
    p.temperature += delta;
    p.flags ^= 0x15;
    p.offset = -p.offset;
    packed[threadIdx.x] = p;
}
