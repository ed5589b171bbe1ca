// soft_clip on NVIDIA GPUs: one thread for each element.
#pragma once

#include "myops/device.h"

namespace myops {

struct SoftClipArguments {
  const void* x;
  void* y;
  double limit;
};

// T is the dtype of the call, A the type that it is computed in.
template <class T, class A>
void soft_clip_element(const SoftClipArguments& arguments, int64_t i) {
  const A limit = static_cast<A>(arguments.limit);
  const A x = static_cast<A>(static_cast<const T*>(arguments.x)[i]);
  static_cast<T*>(arguments.y)[i] = static_cast<T>(limit * std::tanh(x / limit));
}

}  // namespace myops

MYOPS_KERNEL(soft_clip, SoftClipArguments, soft_clip_element)
