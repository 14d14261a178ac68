// An array of structs, and a struct as a parameter: one step of particles that bounce off the walls.
//
// qdbg-needs: A
//
// qdbg: launch bounce<<<1, 4>>>(particles = i32[0, 5, 3, -2, 90, 8, 12, 1, 50, 50, -60, 60, 99, 0, 1, 0],
// qdbg:                         box = bytes[0, 0, 0, 0, 0, 0, 0, 0, 99, 0, 0, 0, 59, 0, 0, 0], n = 4)
// qdbg: expect particles = i32[3, 3, 3, -2, 96, 9, -12, 1, 10, 8, 60, -60, 98, 0, -1, 0]

struct Particle {
    int x, y, vx, vy;
};

struct Box {
    int left, bottom, right, top;
};

__device__ void step(int &position, int &velocity, int low, int high)
{
    position += velocity;
    if (position < low) {
        position = 2 * low - position;
        velocity = -velocity;
    } else if (position > high) {
        position = 2 * high - position;
        velocity = -velocity;
    }
}

__global__ void bounce(Particle *particles, Box box, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    Particle p = particles[i];
    step(p.x, p.vx, box.left, box.right);
    step(p.y, p.vy, box.bottom, box.top);
    particles[i] = p;
}
