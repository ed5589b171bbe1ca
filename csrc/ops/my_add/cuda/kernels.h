// my_add on CUDA: a thread for each element of the result, in the order of its memory.
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

}  // namespace myops

MYOPS_KERNEL(my_add, AddArguments, add_element)
