// The gradient of a linear layer: the rows of a batch add theirs up by floating-point atomics.
//
// All numbers are small multiples of 1 / 8, so every order of the additions gives the same sum.
//
// qdbg-needs: A B C F G J
//
// qdbg: launch gradient_sum<<<4, 8>>>(x = i8[32] = random(221, -20, 20), error = f32[0.5, -0.25, 1.125, 3],
// qdbg:                               gradient = f32[8], bias = f32[1])
// qdbg: expect gradient = f32[23.875, -54.5, 17.375, -22.5, -39.375, -7.75, 13, -7.25]
// qdbg: expect bias = f32[4.375]

__global__ void gradient_sum(const signed char *x, const float *error, float *gradient, float *bias)
{
    __shared__ float total;

    int row = blockIdx.x, column = threadIdx.x;
    if (column == 0)
        total = 0.0f;
    __syncthreads();
    atomicAdd(&gradient[column], error[row] * x[row * 8 + column]);
    atomicAdd(&total, error[row]);
    __syncthreads();
    if (column == 0)
        atomicAdd(bias, total * 0.125f);
}
