// The header that CUDA sources include: element types, and the declaration of kernels.
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
// Functions need no __device__: an option of NVRTC makes it the default. Tests compile the same
// text for the CPU, so it must be plain C++. MYOPS_BLOCK_KERNEL declares a kernel whose threads
// share memory and wait for each other.
#pragma once

// Before a loop of a fixed length whose number is an index of registers: without it, the compiler
// may keep the array in memory. MYOPS_NO_UNROLL: before a loop whose copies would only fill the
// cache of instructions.
#ifdef __CUDACC__
#define MYOPS_UNROLL _Pragma("unroll")
#define MYOPS_NO_UNROLL _Pragma("unroll 1")
#else
#define MYOPS_UNROLL
#define MYOPS_NO_UNROLL
#endif

#ifdef __CUDACC__
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
using bool_t = bool;

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

// Adds to a number that other threads increase too, and returns its previous value. The order of
// the threads is undefined, so no result may depend on the returned value.
inline int64_t count_up(int64_t* number, int64_t by = 1) {
#ifdef __CUDACC__
  return static_cast<int64_t>(atomicAdd(reinterpret_cast<unsigned long long*>(number),
                                        static_cast<unsigned long long>(by)));
#else
  return __atomic_fetch_add(number, by, __ATOMIC_RELAXED);
#endif
}
inline int32_t count_up(int32_t* number, int32_t by = 1) {
#ifdef __CUDACC__
  return atomicAdd(number, by);
#else
  return __atomic_fetch_add(number, by, __ATOMIC_RELAXED);
#endif
}

// Elements that are read and written together: 16 bytes, at an address that is a multiple of 16.
template <class T>
struct alignas(16) Pack {
  static constexpr int kCount = 16 / sizeof(T);
  T at[kCount];
};

// A divisor that is the same for all threads. For numbers from 0 to 2^31 - 1 the division is a
// multiplication (Granlund and Montgomery, "Division by Invariant Integers using Multiplication",
// 1994); a GPU needs about twenty instructions for one of 32 bits, and a hundred for one of 64.
struct Divisor {
  int64_t by;
  uint32_t factor, shift;
};
inline Divisor divisor_of(int64_t by) {  // at least 1
  Divisor made{by, 0, 0};
  if (by >= int64_t{1} << 31) return made;  // only for numbers of 64 bits
  while ((int64_t{1} << made.shift) < by) ++made.shift;
  const uint64_t rest = (uint64_t{1} << made.shift) - static_cast<uint64_t>(by);
  made.factor = static_cast<uint32_t>((rest << 32) / static_cast<uint64_t>(by) + 1);
  return made;
}
inline int32_t divided(int32_t number, const Divisor& divisor) {
  const uint32_t n = static_cast<uint32_t>(number);
  const uint32_t high = static_cast<uint32_t>((static_cast<uint64_t>(n) * divisor.factor) >> 32);
  return static_cast<int32_t>((high + n) >> divisor.shift);
}
inline int64_t divided(int64_t number, const Divisor& divisor) { return number / divisor.by; }

// The `count` threads of a block, which run the function of the kernel together. Code outside
// each() must compute the same in all of them.
template <int count>
class Block {
 public:
  static constexpr int kThreads = count;
  // Calls body(thread) in every thread, 0 to count - 1. Then all threads wait for each other, and
  // see what the others wrote. Within body, no thread may read what another writes.
  template <class Body>
  void each(const Body& body) const {
    begin(body);
#ifdef __CUDACC__
    __syncthreads();
#endif
  }
  // The same without waiting: no thread may read what another has written since the last each().
  template <class Body>
  void begin(const Body& body) const {
#ifdef __CUDACC__
    body(static_cast<int>(threadIdx.x));
#else
    int order[count];
    for (int i = 0; i < count; ++i) order[i] = i;
    if (shuffle != nullptr) shuffle(order, count);
    for (const int thread : order) body(thread);
#endif
  }
#ifndef __CUDACC__
  void (*shuffle)(int* order, int length) = nullptr;  // of the threads, for tests
#endif
};

// A variable that every thread has, which keeps its value from one each() to the next.
template <class Value, int count>
class PerThread {
 public:
#ifdef __CUDACC__
  Value& operator[](int) { return value_; }

 private:
  Value value_ = {};
#else
  Value& operator[](int thread) { return values_[thread]; }

 private:
  Value values_[count] = {};
#endif
};

namespace detail {
template <class Arguments>
constexpr decltype(Arguments::kBlocks) blocks_at_once(int) {
  return Arguments::kBlocks;
}
template <class Arguments>
constexpr int blocks_at_once(long) {
  return 1;
}
}  // namespace detail

}  // namespace myops

// MYOPS_KERNEL(name, Arguments, body): a kernel that calls body<MYOPS_T, MYOPS_A>(arguments, i) for
// each i below the count that it is launched with. `arguments` are those of the launch.
//
// MYOPS_BLOCK_KERNEL(name, Arguments, Shared, body): a kernel that calls
// body<MYOPS_T, MYOPS_A>(arguments, block, i, shared) for each i below that count, with all threads
// of a block, Arguments::kThreads of them. `shared` is a Shared<MYOPS_A> in the memory that these
// share, uninitialised for each i: only numbers and arrays of numbers, at most 48 KB. If there is
// an Arguments::kBlocks, the compiler gives a thread no more registers than allow a multiprocessor
// to run that many blocks at a time, with sums of 4 bytes.
#ifdef __CUDACC__
#define MYOPS_KERNEL(name, Arguments, body)                                                    \
  extern "C" __global__ void name(const ::myops::Arguments arguments, const long long count) { \
    const long long step = (long long)blockDim.x * gridDim.x;                                  \
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) \
      ::myops::body<MYOPS_T, MYOPS_A>(arguments, i);                                           \
  }
#define MYOPS_BLOCK_KERNEL(name, Arguments, Shared, body)                                \
  extern "C" __global__ void __launch_bounds__(                                          \
      ::myops::Arguments::kThreads,                                                      \
      sizeof(MYOPS_A) <= 4 ? ::myops::detail::blocks_at_once<::myops::Arguments>(0) : 1) \
      name(const ::myops::Arguments arguments, const long long count) {                  \
    __shared__::myops::Shared<MYOPS_A> shared;                                           \
    static_assert(sizeof shared <= 48 << 10, "a block has 48 KB of shared memory");      \
    const ::myops::Block<::myops::Arguments::kThreads> block;                            \
    for (long long i = blockIdx.x; i < count; i += gridDim.x)                            \
      ::myops::body<MYOPS_T, MYOPS_A>(arguments, block, i, shared);                      \
  }
#elif !defined(MYOPS_KERNEL)  // where what launches kernels includes their arguments
#define MYOPS_KERNEL(name, Arguments, body)
#define MYOPS_BLOCK_KERNEL(name, Arguments, Shared, body)
#endif
