// What CUDA sources include: element types, and the declaration of kernels.
//
//   #include "myops/device.h"
//   namespace myops {
//   struct Arguments { const void* x; void* y; };
//   template <class T, class A>
//   void twice(const Arguments& arguments, int64_t i) {
//     static_cast<T*>(arguments.y)[i] = T(2 * A(static_cast<const T*>(arguments.x)[i]));
//   }
//   }  // namespace myops
//   MYOPS_KERNEL(my_kernel, Arguments, twice)
//
// Functions need no __device__: NVRTC is told that all are. The same text is C++ for a CPU, where
// tests run it; so it uses nothing that CUDA alone has, and no memory shared by a block.
#pragma once

#ifdef __CUDACC_RTC__
namespace myops {
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;
}  // namespace myops
#include "myops/narrow_floats.h"
namespace myops {
namespace detail {
template <class T, bool narrow = (sizeof(T) <= 2)>
struct AccumulateOf {
  using type = float;
};
template <class T>
struct AccumulateOf<T, false> {
  using type = T;
};
}  // namespace detail
// As in dtype.h.
template <class T>
using Accumulate = typename detail::AccumulateOf<T>::type;
}  // namespace myops
#else
#include <cmath>
#include <cstdint>

#include "myops/dtype.h"
#endif

namespace myops {

using float32_t = float;
using float64_t = double;

template <class T>
T smaller(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T larger(T a, T b) {
  return a < b ? b : a;
}
template <class T>
T inside(T value, T low, T high) {
  return value < low ? low : high < value ? high : value;
}

// Adds 1 to a number that other threads add 1 to, and returns what it was: in no given order, so
// that a result must not depend on it.
inline int64_t count_up(int64_t* number) {
#ifdef __CUDACC_RTC__
  return static_cast<int64_t>(atomicAdd(reinterpret_cast<unsigned long long*>(number), 1ull));
#else
  return __atomic_fetch_add(number, int64_t{1}, __ATOMIC_RELAXED);
#endif
}

}  // namespace myops

#ifdef __CUDACC_RTC__
// A kernel that calls body<MYOPS_T, MYOPS_A>(arguments, i) for each i below the count it is
// launched with. `arguments` are those of the launch.
#define MYOPS_KERNEL(name, Arguments, body)                                                    \
  extern "C" __global__ void name(const ::myops::Arguments arguments, const long long count) { \
    const long long step = (long long)blockDim.x * gridDim.x;                                  \
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) \
      ::myops::body<MYOPS_T, MYOPS_A>(arguments, i);                                           \
  }
#elif !defined(MYOPS_KERNEL)  // where what launches kernels includes their arguments
#define MYOPS_KERNEL(name, Arguments, body)
#endif
