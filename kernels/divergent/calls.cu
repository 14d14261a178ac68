// Functions that are not inlined: values, pointers to local memory and a struct go in and out.
//
// qdbg-needs: A L M N O
//
// qdbg: launch calls<<<1, 8>>>(x = i32[3, -4, 0, 12, -7, 100, 55, -1], quotient = i32[8], rest = i32[8],
// qdbg:                        biggest = i32[8])
// qdbg: expect quotient = i32[0, -1, 0, 2, -2, 20, 11, -1]
// qdbg: expect rest = i32[3, 1, 0, 2, 3, 0, 0, 4]
// qdbg: expect biggest = i32[4, 4, 7, 11, 7, 99, 48, 3]

struct Division {
    int quotient, rest;
};

// Division that rounds towards minus infinity.
__device__ __noinline__ Division floor_divide(int a, int b)
{
    Division d = {a / b, a % b};
    if (d.rest < 0) {
        d.quotient--;
        d.rest += b;
    }
    return d;
}

__device__ __noinline__ int largest(const int *values, int n)
{
    int best = values[0];
#pragma unroll 1
    for (int k = 1; k < n; k++)
        best = max(best, values[k]);
    return best;
}

__global__ void calls(const int *x, int *quotient, int *rest, int *biggest)
{
    int i = threadIdx.x;
    Division d = floor_divide(x[i], 5);
    quotient[i] = d.quotient;
    rest[i] = d.rest;
    int values[3] = {x[i] ^ 7, d.quotient + d.rest, -x[i]};
    int result = largest(values, 3);
    if (x[i] < 0)
        result = largest(values + 1, 2);
    biggest[i] = result;
}
