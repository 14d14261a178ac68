// A little interpreter: each lane runs its own program of bytes on its own stack.
//
// The `switch` has enough cases in a row for a jump table, and the stack lives in local memory.
//
// qdbg-needs: A J N
//
// qdbg: launch run<<<1, 3>>>(code = u8[1, 5, 1, 7, 2, 1, 3, 3, 4, 0,
// qdbg:                                1, 10, 6, 5, 3, 8, 6, 1, 100, 2, 0,
// qdbg:                                1, 9, 7, 4, 0], start = i32[0, 10, 21], result = i32[3], limit = 100)
// qdbg: expect result = i32[-36, 1049, -36]

__global__ void run(const unsigned char *code, const int *start, int *result, int limit)
{
    int stack[8];
    int top = -1, pc = start[threadIdx.x];
#pragma unroll 1
    for (int steps = 0; steps < limit; steps++) {
        int operation = code[pc++];
        switch (operation) {
        case 0:
            steps = limit;
            break;
        case 1:
            stack[++top] = code[pc++];
            break;
        case 2:
            top--;
            stack[top] += stack[top + 1];
            break;
        case 3:
            top--;
            stack[top] *= stack[top + 1];
            break;
        case 4:
            stack[top] = -stack[top];
            break;
        case 5:
            stack[top] ^= 0x55;
            break;
        case 6:
            stack[top + 1] = stack[top];
            top++;
            break;
        case 7:
            stack[top] <<= 2;
            break;
        case 8:
            stack[top] -= 1;
            break;
        }
    }
    result[threadIdx.x] = stack[top];
}
