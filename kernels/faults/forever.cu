// A loop that never ends: `volatile` makes the compiler reload a flag that nobody sets.
//
// Something to interrupt. `qdbg run` stops at its pass limit (--max-passes) with status 3; in the
// debugger, continue and press ctrl+c.
//
// qdbg-needs: A
//
// qdbg-verify: endless
// qdbg: launch wait_for_flag<<<1, 4>>>(flag = i32[1])

__global__ void wait_for_flag(volatile int *flag)
{
    while (*flag == 0)
        ;
}
