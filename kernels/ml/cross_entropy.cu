// Cross entropy of rows of logits, one row a thread: the logarithm of a sum of exponentials.
//
// qdbg-needs: A B F I M
//
// qdbg: launch cross_entropy<<<1, 4>>>(logits = f32[20] = random(171, -5, 5), label = i32[0, 3, 4, 1],
// qdbg:                                loss = f32[4], classes = 5)
// qdbg: expect loss ~ f32[1.5494593, 2.9825292, 4.914987, 4.3070927] ulp 4

__global__ void cross_entropy(const float *logits, const int *label, float *loss, int classes)
{
    const float *row = logits + threadIdx.x * classes;
    float top = row[0];
#pragma unroll 1
    for (int c = 1; c < classes; c++)
        top = fmaxf(top, row[c]);
    float sum = 0.0f;
#pragma unroll 1
    for (int c = 0; c < classes; c++)
        sum += expf(row[c] - top);
    loss[threadIdx.x] = logf(sum) + (top - row[label[threadIdx.x]]);
}
