// Cube roots by Newton's method: divisions, and a loop that ends when nothing changes any more.
//
// qdbg-needs: A B F
//
// qdbg: launch cube_root<<<1, 6>>>(x = f32[1, 2, 27, 0.001, 1e10, -8], root = f32[6], rounds = i32[6])
// qdbg: expect root = f32[1, 1.2599211, 3, 0.1, 2154.4346, -2]
// qdbg: expect rounds = i32[0, 5, 9, 25, 42, 7]

__global__ void cube_root(const float *x, float *root, int *rounds)
{
    float a = x[threadIdx.x], r = a;
    int n = 0;
#pragma unroll 1
    for (; n < 100; n++) {
        float next = r - (r - a / (r * r)) / 3.0f;
        if (next == r)
            break;
        r = next;
    }
    root[threadIdx.x] = r;
    rounds[threadIdx.x] = n;
}
