// What passes (passes.h) of resize on CUDA read, sum and write.
//
// Sums have the same order as on the CPU (kernels/slab_sum.h), and so the same bits.
#pragma once

#include "resize/cuda/tables.h"

namespace myops {
namespace resize_kernels {

template <class T, class A>
struct Element {
  static T of(A sum) { return static_cast<T>(sum); }
};
template <class A>
struct Element<uint8_t, A> {  // half to even; NaN becomes 0
  static uint8_t of(A sum) {
    const A kNoFraction = 8388608;
    const A low = sum > 0 ? sum : A(0);
    const A within = low < 255 ? low : A(255);
    return static_cast<uint8_t>(static_cast<int32_t>((within + kNoFraction) - kNoFraction));
  }
};

// Numbers that are read or written by one instruction, or by two.
template <class V, int count>
struct alignas(count * sizeof(V) < 16 ? count * sizeof(V) : 16) Together {
  V at[count];
};

template <class V, int count>
Together<V, count> converted(const Together<V, count>& values, V) {
  return values;
}
template <class X, class A, int count>
Together<A, count> converted(const Together<X, count>& values, A) {
  Together<A, count> made;
  MYOPS_UNROLL
  for (int e = 0; e < count; ++e) made.at[e] = static_cast<A>(values.at[e]);
  return made;
}

// X: the type in memory.
template <class X, class A, int count>
Together<A, count> load(const void* memory, int64_t place) {
  // A copy: the elements of a reference would be read one by one.
  const Together<X, count> found =
      *reinterpret_cast<const Together<X, count>*>(static_cast<const X*>(memory) + place);
  return converted(found, A());
}

// `is_sum`: elements are of type A, not T.
template <class T, class A, int count>
void store(void* memory, bool is_sum, int64_t place, const Together<A, count>& sums) {
  if (is_sum) {
    *reinterpret_cast<Together<A, count>*>(static_cast<A*>(memory) + place) = sums;
    return;
  }
  Together<T, count> made;
  MYOPS_UNROLL
  for (int e = 0; e < count; ++e) made.at[e] = Element<T, A>::of(sums.at[e]);
  *reinterpret_cast<Together<T, count>*>(static_cast<T*>(memory) + place) = made;
}

// Adds up to four products in turn. -0 + p is p for every p, also for -0.
template <class A, int count>
struct FewSum {
  FewSum() {
    MYOPS_UNROLL
    for (int e = 0; e < count; ++e) sum.at[e] = A(-0.0);
  }
  // `used`: whether it is added. A choice of two numbers needs no branch.
  void add(A weight, const Together<A, count>& value, bool used = true) {
    MYOPS_UNROLL
    for (int e = 0; e < count; ++e) {
      sum.at[e] = used ? std::fma(weight, value.at[e], sum.at[e]) : sum.at[e];
    }
  }
  Together<A, count> total() const { return sum; }

  Together<A, count> sum;
};

// Adds more products: four sums are used in turn. Rotating them instead of using an index keeps
// them in registers.
template <class A, int count>
struct LongSum {
  void add(A weight, const Together<A, count>& value) {
    MYOPS_UNROLL
    for (int e = 0; e < count; ++e) {
      const A next = std::fma(weight, value.at[e], part[0].at[e]);
      part[0].at[e] = part[1].at[e];
      part[1].at[e] = part[2].at[e];
      part[2].at[e] = part[3].at[e];
      part[3].at[e] = next;
    }
  }
  Together<A, count> total() const {
    Together<A, count> made;
    MYOPS_UNROLL
    for (int e = 0; e < count; ++e) {
      made.at[e] = (part[0].at[e] + part[2].at[e]) + (part[1].at[e] + part[3].at[e]);
    }
    return made;
  }

  Together<A, count> part[4] = {};
};

// What one element of an axis sums.
template <class A, class I, int kTaps>
struct Taps {
  Taps(const TapTable& table, I element) {
    const int64_t place = static_cast<int64_t>(element) * kTaps;
    indices =
        *reinterpret_cast<const Together<I, kTaps>*>(static_cast<const I*>(table.index) + place);
    weights =
        *reinterpret_cast<const Together<A, kTaps>*>(static_cast<const A*>(table.weight) + place);
  }
  template <int count, class Value>
  Together<A, count> sum(const Value& value) const {
    FewSum<A, count> sum;
    MYOPS_UNROLL
    for (int k = 0; k < kTaps; ++k) sum.add(weights.at[k], value(indices.at[k]));
    return sum.total();
  }

  Together<I, kTaps> indices;
  Together<A, kTaps> weights;
};

// Any number of taps.
template <class A, class I>
struct Taps<A, I, 0> {
  Taps() = default;
  Taps(const TapTable& table, I element)
      : span(static_cast<const TapSpan<I>*>(table.span)[element]),
        indices(static_cast<const I*>(table.index) + span.start),
        weights(static_cast<const A*>(table.weight) + span.start) {}
  I index(I k) const { return span.neighbours != 0 ? span.first + k : indices[k]; }

  template <int count, class Value>
  Together<A, count> sum(const Value& value) const {
    if (span.count == 0) return {};
    if (span.count <= 4) {
      FewSum<A, count> sum;
      MYOPS_NO_UNROLL
      for (I k = 0; k < span.count; ++k) sum.add(weights[k], value(index(k)));
      return sum.total();
    }
    LongSum<A, count> sum;
    for (I k = 0; k < span.count; ++k) sum.add(weights[k], value(index(k)));
    return sum.total();
  }

  TapSpan<I> span;
  const I* indices;
  const A* weights;
};

// At most kMost taps, which are read without a branch: beyond the last tap, element 0 is read and
// not added.
template <class A, class I, int kMost>
struct FewTaps {
  explicit FewTaps(const Taps<A, I, 0>& taps) : span(taps.span) {
    MYOPS_UNROLL
    for (int k = 0; k < kMost; ++k) {
      indices[k] = 0, weights[k] = 0;
      if (k < span.count) indices[k] = taps.index(k), weights[k] = taps.weights[k];
    }
  }
  template <int count, class Value>
  Together<A, count> sum(const Value& value) const {
    FewSum<A, count> sum;
    MYOPS_UNROLL
    for (int k = 0; k < kMost; ++k) sum.add(weights[k], value(indices[k]), k < span.count);
    Together<A, count> made = sum.total();
    MYOPS_UNROLL
    for (int e = 0; e < count; ++e) made.at[e] = span.count == 0 ? A(0) : made.at[e];
    return made;
  }

  TapSpan<I> span;
  I indices[kMost];
  A weights[kMost];
};

}  // namespace resize_kernels
}  // namespace myops
