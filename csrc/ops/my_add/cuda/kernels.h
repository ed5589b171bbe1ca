// my_add on CUDA: a thread for each element of the result, in memory order, or for each 16 bytes
// where these are contiguous in all tensors.
#pragma once

#include "myops/device.h"

namespace myops {

struct AddArguments {
  static constexpr int kMostAxes = 64;
  const void* a;
  const void* b;
  void* c;
  int32_t axes;
  // Of each axis, outermost first: its length, and the steps of a and b in elements.
  int64_t length[kMostAxes], a_step[kMostAxes], b_step[kMostAxes];
};

namespace add_kernels {

// Integers wrap around.
template <class T>
struct Twice {
  template <class A>
  static T plus(T a, T b, A) {
    return static_cast<T>(A(2) * static_cast<A>(a) + static_cast<A>(b));
  }
};
template <>
struct Twice<int32_t> {
  template <class A>
  static int32_t plus(int32_t a, int32_t b, A) {
    return static_cast<int32_t>(2u * static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  }
};
template <>
struct Twice<int64_t> {
  template <class A>
  static int64_t plus(int64_t a, int64_t b, A) {
    return static_cast<int64_t>(uint64_t(2) * static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
};

}  // namespace add_kernels

template <class T, class A>
void add_element(const AddArguments& arguments, int64_t i) {
  int64_t a = 0, b = 0, rest = i;
  for (int axis = arguments.axes - 1; axis > 0; --axis) {
    const int64_t length = arguments.length[axis], at = rest % length;
    rest /= length;
    a += at * arguments.a_step[axis];
    b += at * arguments.b_step[axis];
  }
  a += rest * arguments.a_step[0];
  b += rest * arguments.b_step[0];
  const T* from_a = static_cast<const T*>(arguments.a);
  const T* from_b = static_cast<const T*>(arguments.b);
  static_cast<T*>(arguments.c)[i] = add_kernels::Twice<T>::plus(from_a[a], from_b[b], A(0));
}

// Elements i * kCount and so on: one axis, along which the steps are 1 or 0.
template <class T, class A>
void add_pack(const AddArguments& arguments, int64_t i) {
  constexpr int kCount = Pack<T>::kCount;
  const T* a = static_cast<const T*>(arguments.a);
  const T* b = static_cast<const T*>(arguments.b);
  T* c = static_cast<T*>(arguments.c);
  const int64_t begin = i * kCount, a_step = arguments.a_step[0], b_step = arguments.b_step[0];
  if (begin + kCount > arguments.length[0]) {
    for (int64_t at = begin; at < arguments.length[0]; ++at) {
      c[at] = add_kernels::Twice<T>::plus(a[at * a_step], b[at * b_step], A(0));
    }
    return;
  }
  const auto take = [&](const T* from, int64_t step) {
    if (step != 0) return *reinterpret_cast<const Pack<T>*>(from + begin);
    Pack<T> same;
    for (int k = 0; k < kCount; ++k) same.at[k] = from[0];
    return same;
  };
  const Pack<T> left = take(a, a_step), right = take(b, b_step);
  Pack<T> sum;
  for (int k = 0; k < kCount; ++k) {
    sum.at[k] = add_kernels::Twice<T>::plus(left.at[k], right.at[k], A(0));
  }
  *reinterpret_cast<Pack<T>*>(c + begin) = sum;
}

}  // namespace myops

MYOPS_KERNEL(my_add_packs, AddArguments, add_pack)
MYOPS_KERNEL(my_add, AddArguments, add_element)
