"""Stand-ins for headers that device code includes and the device compiler does not have."""

from __future__ import annotations

_STDINT = """\
#pragma once
typedef signed char int8_t; typedef unsigned char uint8_t;
typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t;
typedef long long int64_t; typedef unsigned long long uint64_t;
typedef long long intptr_t; typedef unsigned long long uintptr_t;
#define INT8_MAX 127
#define INT16_MAX 32767
#define INT32_MAX 2147483647
#define INT32_MIN (-2147483647 - 1)
#define INT64_MAX 9223372036854775807LL
#define INT64_MIN (-9223372036854775807LL - 1)
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 4294967295U
#define UINT64_MAX 18446744073709551615ULL
"""
_LIMITS = """\
#pragma once
#define CHAR_BIT 8
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295U
#define LLONG_MAX 9223372036854775807LL
#define LLONG_MIN (-9223372036854775807LL - 1)
#define ULLONG_MAX 18446744073709551615ULL
"""
_FLOAT = """\
#pragma once
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define DBL_MAX 1.7976931348623157e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
"""
_MATH = """\
#pragma once
#define M_E 2.71828182845904523536
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define HUGE_VAL __longlong_as_double(0x7ff0000000000000LL)
"""
#: What every file sees under `nvcc`, which includes these headers by itself.
IMPLICIT = _MATH + _LIMITS
#: Separated by blanks; an empty text stands for each.
_EMPTY = """
    algorithm array atomic bitset cassert cctype cerrno chrono ciso646 complex condition_variable cstdarg
    cstddef cstdio cstdlib cstring ctime deque exception execution filesystem fstream functional future
    initializer_list iomanip ios iosfwd iostream istream iterator limits list locale map memory mutex new
    numeric optional ostream queue random ratio regex set sstream stack stdexcept streambuf string
    string_view system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility
    valarray variant vector
    assert.h ctype.h errno.h inttypes.h malloc.h memory.h omp.h pthread.h signal.h stdarg.h stdbool.h stddef.h
    stdio.h stdlib.h string.h strings.h time.h unistd.h sys/time.h sys/types.h sys/stat.h windows.h
    cuda.h cuda_runtime.h cuda_runtime_api.h cuda_device_runtime_api.h cuda_profiler_api.h
    device_launch_parameters.h device_functions.h math_functions.h sm_60_atomic_functions.h vector_types.h
    vector_functions.h driver_types.h builtin_types.h
"""

#: Include name to contents.
STAND_INS: dict[str, str] = dict.fromkeys(_EMPTY.split(), "") | {
    "stdint.h": _STDINT, "cstdint": _STDINT, "inttypes.h": _STDINT, "cinttypes": _STDINT,
    "limits.h": _LIMITS, "climits": _LIMITS, "float.h": _FLOAT, "cfloat": _FLOAT,
    "math.h": _MATH, "cmath": _MATH, "math_constants.h": "",
}  # fmt: skip

_LIBRARIES = ("thrust/", "cublas", "cufft", "cusolver", "cusparse", "cudnn", "nvtx", "nvToolsExt", "helper_")
_HOST_LIBRARIES = ("curand.h",)


def is_host_library(name: str) -> bool:
    """Whether a header belongs to a library that only host code calls."""
    return name.startswith(_LIBRARIES) or name in _HOST_LIBRARIES
