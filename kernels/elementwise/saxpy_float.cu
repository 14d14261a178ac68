// y = alpha * x + y in floating point, every product and sum rounded once: BLAS's saxpy.
//
// qdbg-needs: A B
//
// qdbg: launch saxpy<<<2, 8>>>(n = 13, alpha = 0.3, x = f32[13] = random(101), y = f32[13] = random(102, -8, 8))
// qdbg: expect y = f32[-6.7319655, 1.2482796, -0.3740238, 0.65769863, -1.78859, -0.15928604, -0.4070706, -5.3679776, -5.9171696, -3.0539618, 0.92986554, 4.4669704, 6.880365]

__global__ void saxpy(int n, float alpha, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = fmaf(alpha, x[i], y[i]);
}
