#include <cstdio>
#include <cassert>
struct P { int a; float b; char c[6]; double d; };
__constant__ float table[4] = {1.f, -2.5f, 3e10f, 4};
__constant__ P pc = {1, 2.f, {1,2,3}, 4.0};
__device__ int counter = -7;
__device__ int grid2[2][3] = {{1,2,3},{4,5,6}};
__device__ const char* names[2] = {"hello", "world\n"};
__device__ int* ptr = &grid2[1][1];
extern __shared__ float dyn[];
__device__ __noinline__ int helper(P p, int x) { return p.a * x + p.c[x & 3] + counter; }
__device__ __noinline__ P mk(int x) { P p; p.a = x; p.b = x; p.c[0]=x; p.d = x; return p; }
__device__ int (*fp[2])(int) ;
__device__ int f1(int x){return x+1;}
__device__ int f2(int x){return x*3;}
__global__ void __launch_bounds__(128, 2) k(P p, float* __restrict__ out, const int* in, int n) {
  __shared__ int s[32][33];
  __shared__ P sp;
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n) return;
  s[threadIdx.x][0] = in[i]; sp = p;
  __syncthreads();
  int loc[10]; for (int j = 0; j < 10; j++) loc[j] = in[j + i];
  switch (n & 7) { case 0: out[i] = 1; break; case 1: out[i] = 3.f*in[i]; break; case 2: atomicAdd(&out[3], 1.f); break; case 3: printf("%d\n", i); break; case 5: out[2] = sinf(in[i]); break; case 6: assert(i); }
  float4 v = ((float4*)out)[i]; v.x += v.y; ((float4*)out)[i+1] = v;
  P q = mk(n);
  dyn[i] = helper(q, loc[n]) + table[i & 3] + s[i & 31][0] + sp.b + pc.b+ __shfl_xor_sync(~0u, i, 1) + names[n&1][0];
  int (*f)(int) = (n & 1) ? f1 : f2; if (n > 3) out[5] = fp[n&1](n) + f(*ptr);
  out[i] = dyn[i ^ 1];
}
template<typename T, int N> __global__ void tk(T* a) { a[threadIdx.x] *= N; }
template __global__ void tk<float, 3>(float*);
