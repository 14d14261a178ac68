// Lanes with the same key find each other; the first of each group counts it. Keys of 32 and 64 bits.
//
// qdbg-needs: A D L M
//
// qdbg: launch match<<<1, 32>>>(key = i32[32] = random(61, 0, 5), peers = u32[32], leader_count = i32[32],
// qdbg:                         wide = u32[32], same = i32[2])
// qdbg: expect peers = u32[2181283841, 279970934, 279970934, 1077936520, 279970934, 279970934, 279970934, 1077936520, 1077936520, 738994688, 279970934, 738994688, 16781312, 738994688, 2181283841, 2181283841, 2181283841, 2181283841, 738994688, 738994688, 279970934, 279970934, 1077936520, 279970934, 16781312, 2181283841, 738994688, 738994688, 279970934, 738994688, 1077936520, 2181283841]
// qdbg: expect leader_count = i32[7, 10, 0, 5, 0, 0, 0, 0, 0, 8, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
// qdbg: expect wide = u32[3998215049, 296752246, 296752246, 3998215049, 296752246, 296752246, 296752246, 3998215049, 3998215049, 3998215049, 296752246, 3998215049, 296752246, 3998215049, 3998215049, 3998215049, 3998215049, 3998215049, 3998215049, 3998215049, 296752246, 296752246, 3998215049, 296752246, 296752246, 3998215049, 3998215049, 3998215049, 296752246, 3998215049, 3998215049, 3998215049]
// qdbg: expect same = i32[0, 1]

#define FULL 0xffffffffu

__global__ void match(const int *key, unsigned *peers, int *leader_count, unsigned *wide, int *same)
{
    int lane = threadIdx.x;
    unsigned mask = __match_any_sync(FULL, key[lane]);
    peers[lane] = mask;
    leader_count[lane] = __ffs(mask) - 1 == lane ? __popc(mask) : 0;
    wide[lane] = __match_any_sync(FULL, (unsigned long long)(key[lane] & 1) << 40);
    int all_keys, all_signs;
    __match_all_sync(FULL, key[lane], &all_keys);
    unsigned everyone = __match_all_sync(FULL, key[lane] >> 31, &all_signs);
    if (lane == 0) {
        same[0] = all_keys;
        same[1] = all_signs && everyone == FULL;
    }
}
