// A lock taken with `atomicCAS` and given back with `atomicExch`, fought over by the lanes of a warp.
//
// Each lane that gets in does what no single atomic could. It needs a machine that lets every lane go
// on: on a warp that waits for the spinning lanes first, the one that holds the lock never comes out.
//
// qdbg-needs: A G H
//
// qdbg: launch locked<<<2, 8>>>(lock = i32[1], balance = i32[2] = 100, amount = i32[8] = iota)
// qdbg: expect lock = i32[0]
// qdbg: expect balance = i32[44, 156]

__global__ void locked(int *lock, volatile int *balance, const int *amount)
{
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            int a = balance[0], b = balance[1];
            balance[0] = a - amount[threadIdx.x];
            balance[1] = b + amount[threadIdx.x];
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}
