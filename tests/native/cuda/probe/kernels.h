// Device code of the ops in ../probe_ops.cpp.
#pragma once

#include "myops/device.h"
#include "myops/random.h"

namespace myops {

struct ListProbe {
  static constexpr int kMost = 4;
  const void* items[kMost];
  int32_t count;
  void *sum, *largest;  // null: not wanted
};

template <class T, class A>
void sum_of_list(const ListProbe& arguments, int64_t i) {
  A sum = 0, most = 0;
  for (int k = 0; k < arguments.count; ++k) {
    const A item = static_cast<A>(static_cast<const T*>(arguments.items[k])[i]);
    sum += item;
    most = k == 0 ? item : larger(most, item);
  }
  static_cast<T*>(arguments.sum)[i] = static_cast<T>(sum);
  if (arguments.largest != nullptr) static_cast<T*>(arguments.largest)[i] = static_cast<T>(most);
}

struct NoiseProbe {
  const void* x;
  void* y;
  uint64_t seed;
};

template <class T, class A>
void add_noise(const NoiseProbe& arguments, int64_t i) {
  const Philox random(arguments.seed);
  const A x = static_cast<A>(static_cast<const T*>(arguments.x)[i]);
  static_cast<T*>(arguments.y)[i] =
      static_cast<T>(x + static_cast<A>(random.uniform(static_cast<uint64_t>(i))));
}

}  // namespace myops

MYOPS_KERNEL(sum_of_list, ListProbe, sum_of_list)
MYOPS_KERNEL(add_noise, NoiseProbe, add_noise)
