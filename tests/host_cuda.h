// What CUDA kernels use and `cudacpu.h` does not have, as host C++; included by `make_expectations.py`.
//
// Values come from the CUDA C++ Programming Guide and the CUDA Math API, not from any interpreter.
// Approximate functions are the host's correctly rounded or libm's values: expectations that use them
// are stated with `~ ... ulp N`.
#pragma once
#include "cudacpu.h"

#include <cassert>
#include <charconv>
#include <cstdint>
#include <iostream>
#include <numeric>
#include <vector>

#define __noinline__ __attribute__((noinline))

typedef unsigned char uchar;

// --- vector types ------------------------------------------------------------------------------------

struct alignas(2) uchar2 { unsigned char x, y; };
struct uchar3 { unsigned char x, y, z; };
struct alignas(4) uchar4 { unsigned char x, y, z, w; };
struct alignas(4) short2 { short x, y; };
struct alignas(8) short4 { short x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) ulonglong2 { unsigned long long x, y; };
inline uchar4 make_uchar4(unsigned char x, unsigned char y, unsigned char z, unsigned char w) { return {x, y, z, w}; }
inline short2 make_short2(short x, short y) { return {x, y}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }

// --- integers ----------------------------------------------------------------------------------------

inline int __dp4a(int a, int b, int c)
{
    for (int k = 0; k < 4; k++)
        c += (int8_t)(a >> 8 * k) * (int8_t)(b >> 8 * k);
    return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c)
{
    for (int k = 0; k < 4; k++)
        c += (uint8_t)(a >> 8 * k) * (uint8_t)(b >> 8 * k);
    return c;
}
inline int __dp2a_lo(short2 a, int b, int c) { return c + a.x * (int8_t)b + a.y * (int8_t)(b >> 8); }
inline int __ffsll(long long v) { return __builtin_ffsll(v); }
inline unsigned long long __brevll(unsigned long long v)
{
    return (unsigned long long)__brev((unsigned)v) << 32 | __brev((unsigned)(v >> 32));
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned __int128)a * b >> 64;
}
inline long long __mul64hi(long long a, long long b) { return (__int128)a * b >> 64; }
inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a > b ? a - b : b - a); }
inline int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
template <class T> T __ldg(const T *p) { return *p; }

// --- warps -------------------------------------------------------------------------------------------

// The lanes that have not exited: right where the warp runs together and nobody has left it.
inline unsigned __activemask()
{
    unsigned mask = 0;
    for (const auto &thread : cudacpu::B->t)
        if (thread.warp == cudacpu::B->cur->warp && thread.st != cudacpu::DONE)
            mask |= 1u << thread.lane;
    return mask;
}

template <class T> unsigned __match_all_sync(unsigned mask, T value, int *same)
{
    unsigned peers = __match_any_sync(mask, value), members = __ballot_sync(mask, 1);
    *same = peers == members;
    return *same ? members : 0;
}

// --- floating point ----------------------------------------------------------------------------------

inline float rsqrtf(float x) { return (float)(1.0 / std::sqrt((double)x)); }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __expf(float x) { return (float)std::exp((double)x); }
inline float __logf(float x) { return (float)std::log((double)x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }
inline int __float2int_rn(float x) { return (int)std::nearbyint(x); }
inline int __float2int_rz(float x) { return (int)x; }
inline int __float2int_rd(float x) { return (int)std::floor(x); }
inline int __float2int_ru(float x) { return (int)std::ceil(x); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }

// Half precision: one rounding an operation, as IEEE 754 has it; f32 holds every product and sum exactly
// enough for that (24 >= 2 * 11 + 2).
struct __half { _Float16 v; };
struct __half2 { __half x, y; };
inline __half __float2half(float x) { return {(_Float16)x}; }
inline float __half2float(__half h) { return (float)h.v; }
inline __half __hadd(__half a, __half b) { return {(_Float16)((float)a.v + (float)b.v)}; }
inline __half __hmul(__half a, __half b) { return {(_Float16)((float)a.v * (float)b.v)}; }
inline __half __hfma(__half a, __half b, __half c) { return {(_Float16)((double)a.v * (double)b.v + (double)c.v)}; }
inline bool __hgt(__half a, __half b) { return a.v > b.v; }
inline __half2 __hadd2(__half2 a, __half2 b) { return {__hadd(a.x, b.x), __hadd(a.y, b.y)}; }
inline __half2 __hmul2(__half2 a, __half2 b) { return {__hmul(a.x, b.x), __hmul(a.y, b.y)}; }
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
inline __half2 __float2half2_rn(float x) { return {__float2half(x), __float2half(x)}; }
inline float __low2float(__half2 h) { return (float)h.x.v; }
inline float __high2float(__half2 h) { return (float)h.y.v; }

// --- arguments and results of a launch ---------------------------------------------------------------

namespace host {

// An array for a pointer of any type.
struct Pointer {
    void *data;
    template <class T> operator T *() const { return (T *)data; }
};

// The bytes of a struct that is passed by value.
struct Struct {
    const void *data;
    template <class T> operator T() const
    {
        T value;
        memcpy(&value, data, sizeof value);
        return value;
    }
};

// `T[count] = random(seed)`: element i is output i + 1 of splitmix64, over the whole type, floats in
// [-1, 1); with bounds both in [low, high).
inline uint64_t splitmix64(uint64_t seed, uint64_t index)
{
    uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}
template <class T> std::vector<T> random(int count, uint64_t seed, double low, double high)
{
    std::vector<T> values(count);
    for (int i = 0; i < count; i++) {
        uint64_t z = splitmix64(seed, i);
        if constexpr (std::is_floating_point_v<T>) {
            const int digits = std::numeric_limits<T>::digits;
            values[i] = (T)(low + (double)(z >> (64 - digits)) / (double)(1ull << digits) * (high - low));
        } else {
            values[i] = (T)(z % (uint64_t)((int64_t)high - (int64_t)low) + (uint64_t)(int64_t)low);
        }
    }
    return values;
}
template <class T> std::vector<T> random(int count, uint64_t seed)
{
    if constexpr (std::is_floating_point_v<T>)
        return random<T>(count, seed, -1, 1);
    std::vector<T> values(count);
    for (int i = 0; i < count; i++)
        values[i] = (T)splitmix64(seed, i);
    return values;
}

// One line on stderr, for stdout is the kernel's: the values, floats as the shortest decimals that read back to the same bits.
template <class T> void print(const std::vector<T> &values)
{
    char text[64];
    for (T value : values) {
        if constexpr (std::is_floating_point_v<T>)
            std::cerr.write(text, std::to_chars(text, text + sizeof text, value).ptr - text) << " ";
        else
            std::cerr << +value << " ";
    }
    std::cerr << "\n";
}

} // namespace host
