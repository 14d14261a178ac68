// A hash table with open addressing: the threads insert together, then look their keys up.
//
// Where a key ends up depends on who comes first, whether it is found does not.
//
// qdbg-needs: A C D G
//
// qdbg: launch insert_and_find<<<1, 16>>>(keys = u32[5, 21, 37, 5, 100, 84, 53, 7, 23, 21, 69, 1, 2, 3, 4, 100],
// qdbg:                                   table = u32[32], fresh = i32[1], found = i32[16])
// qdbg: expect fresh = i32[13]
// qdbg: expect found = i32[1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1, 0]

#define SLOTS 32

__device__ unsigned slot_of(unsigned key)
{
    return key * 2654435769u >> 27;
}

__global__ void insert_and_find(const unsigned *keys, unsigned *table, int *fresh, int *found)
{
    unsigned key = keys[threadIdx.x];
#pragma unroll 1
    for (unsigned slot = slot_of(key);; slot = (slot + 1) % SLOTS) {
        unsigned was = atomicCAS(&table[slot], 0, key);
        if (was == 0)
            atomicAdd(fresh, 1);
        if (was == 0 || was == key)
            break;
    }
    __syncthreads();

    unsigned wanted = key + (threadIdx.x & 1);
    unsigned slot = slot_of(wanted);
#pragma unroll 1
    while (table[slot] != 0 && table[slot] != wanted)
        slot = (slot + 1) % SLOTS;
    found[threadIdx.x] = table[slot] == wanted;
}
