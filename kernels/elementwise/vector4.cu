// Four elements at once: loads and stores of 16 bytes, and pairs of words in a struct.
//
// qdbg-needs: A H
//
// qdbg: launch add4<<<1, 4>>>(a = i32[16] = iota, b = i32[16] = random(1, -1000, 1000), sum = i32[16],
// qdbg:                       extremes = i32[8])
// qdbg: expect sum = i32[-535, -480, -408, -762, -235, -947, 51, -460, -472, -41, -253, 881, -204, -465, 830, 754]
// qdbg: expect extremes = i32[-765, -410, -952, 45, -480, 870, -478, 816]

__global__ void add4(const int4 *a, const int4 *b, int4 *sum, int2 *extremes)
{
    int i = threadIdx.x;
    int4 p = a[i], q = b[i];
    sum[i] = make_int4(p.x + q.x, p.y + q.y, p.z + q.z, p.w + q.w);
    extremes[i] = make_int2(min(min(q.x, q.y), min(q.z, q.w)), max(max(q.x, q.y), max(q.z, q.w)));
}
