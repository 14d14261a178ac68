// Bitonic sort of 512 numbers in shared memory by 128 threads, each of which compares two pairs a round.
//
// qdbg-needs: A C
//
// qdbg: launch sort<<<1, 128>>>(data = i32[512] = random(8, -100000, 100000), check = i32[128])
// qdbg: expect check = i32[-99362, -97792, -95306, -93443, -91437, -89828, -87585, -86281, -85323, -83327, -82544, -81333, -80798, -77779, -76369, -75874, -73362, -71014, -69217, -64833, -63254, -62067, -60401, -59446, -58362, -54850, -52254, -50975, -49301, -48146, -46223, -45073, -44000, -41550, -41397, -40437, -37181, -36055, -34639, -31653, -30320, -28630, -26459, -24914, -23610, -21994, -21072, -18616, -18070, -16692, -15616, -14186, -11108, -9067, -7173, -5546, -3812, -1210, -836, 293, 2413, 3475, 4797, 7440, 9243, 11702, 12612, 15144, 17728, 19379, 20714, 24661, 25270, 26441, 28182, 29384, 31434, 32740, 33540, 33848, 35564, 37188, 38856, 40163, 42200, 43468, 44936, 45989, 46958, 48522, 50447, 53488, 54903, 56125, 57466, 58045, 58755, 59879, 60319, 61851, 62423, 65026, 67760, 69508, 70507, 72859, 73794, 74412, 76097, 77508, 79501, 80293, 80893, 81960, 82837, 83465, 85333, 87539, 88081, 90453, 91130, 91684, 92721, 93564, 94702, 96635, 98154, 99030]

#define N 512

__global__ void sort(const int *data, int *check)
{
    __shared__ int s[N];

#pragma unroll 1
    for (int i = threadIdx.x; i < N; i += blockDim.x)
        s[i] = data[i];
    __syncthreads();
#pragma unroll 1
    for (int size = 2; size <= N; size <<= 1) {
#pragma unroll 1
        for (int stride = size >> 1; stride > 0; stride >>= 1) {
#pragma unroll 1
            for (int pair = threadIdx.x; pair < N / 2; pair += blockDim.x) {
                int i = pair + (pair & -stride), j = i + stride;
                int a = s[i], b = s[j];
                if ((a > b) == !(i & size)) {
                    s[i] = b;
                    s[j] = a;
                }
            }
            __syncthreads();
        }
    }
    check[threadIdx.x] = s[4 * threadIdx.x];
}
