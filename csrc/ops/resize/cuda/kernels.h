// resize on CUDA: a table of taps for each resampled axis, made on the device, then one pass for
// each axis with a thread for each element. The gradient uses the same tables: the thread of an
// input element looks up the outputs to which it contributed, so no two threads add to one element.
//
// Sums have the same order as on the CPU (kernels/slab_sum.h), and so the same bits.
#pragma once

#include "resize/cuda/coordinates.h"

namespace myops {

// Of one axis, in memory of the device; `weight` has `most` places for each output.
struct ResizeTaps {
  int64_t most;
  int64_t *base, *count, *low, *high;  // of each output: see TapRange
  void* weight;                        // of type MYOPS_A
  int64_t *first, *last;  // of each input, for the gradient: the outputs that may read it
};

struct TapArguments {
  ResizeAxis axis;
  ResizeTaps taps;
};

template <class T, class A>
void make_taps(const TapArguments& arguments, int64_t o) {
  const ResizeTaps& taps = arguments.taps;
  A* weight = static_cast<A*>(taps.weight) + o * taps.most;
  const resize_kernels::TapRange range =
      resize_kernels::taps_of<A>(arguments.axis, o, taps.most, weight);
  taps.base[o] = range.base;
  taps.count[o] = range.count;
  taps.low[o] = range.low;
  taps.high[o] = range.high;
}

namespace resize_kernels {

// The number of leading elements of a sorted list for which `holds(element)` is true.
template <class Holds>
int64_t count_leading(const int64_t* list, int64_t length, const Holds& holds) {
  int64_t begin = 0, end = length;
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (holds(list[middle])) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

}  // namespace resize_kernels

// The outputs that may read input i. `low` and `high` both grow or both fall.
template <class T, class A>
void find_outputs(const TapArguments& arguments, int64_t i) {
  const ResizeTaps& taps = arguments.taps;
  const int64_t length = arguments.axis.output;
  using resize_kernels::count_leading;
  if (taps.low[length - 1] >= taps.low[0] && taps.high[length - 1] >= taps.high[0]) {
    taps.first[i] = count_leading(taps.high, length, [&](int64_t high) { return high < i; });
    taps.last[i] = count_leading(taps.low, length, [&](int64_t low) { return low <= i; }) - 1;
  } else {
    taps.first[i] = count_leading(taps.low, length, [&](int64_t low) { return low > i; });
    taps.last[i] = count_leading(taps.high, length, [&](int64_t high) { return high >= i; }) - 1;
  }
}

// One pass: x of shape [outer, from, inner] becomes y of shape [outer, to, inner].
struct PassArguments {
  const void* x;
  void* y;
  int64_t from, to, inner;
  int32_t x_is_sum, y_is_sum;  // whether the elements are of type MYOPS_A, not MYOPS_T
  ResizeTaps taps;
  double outside;
};

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

template <class T, class A>
A load(const void* memory, int32_t is_sum, int64_t place) {
  if (is_sum != 0) return static_cast<const A*>(memory)[place];
  return static_cast<A>(static_cast<const T*>(memory)[place]);
}

template <class T, class A>
void store(void* memory, int32_t is_sum, int64_t place, A sum) {
  if (is_sum != 0) {
    static_cast<A*>(memory)[place] = sum;
  } else {
    static_cast<T*>(memory)[place] = Element<T, A>::of(sum);
  }
}

// Adds products in the order of `weighted` in kernels/slab_sum.h. `few`: at most four are added.
template <class A>
struct Sum {
  explicit Sum(bool few_) : few(few_) {}
  void add(A weight, A value) {
    if (few) {
      first = empty ? weight * value : std::fma(weight, value, first);
      empty = false;
      return;
    }
    // The four parts are used in turn; rotating them instead of using an index keeps them in
    // registers.
    const A next = std::fma(weight, value, first);
    first = second, second = third, third = fourth, fourth = next;
  }
  A total() const { return few ? first : (first + third) + (second + fourth); }

  bool few, empty = true;
  A first = 0, second = 0, third = 0, fourth = 0;
};

}  // namespace resize_kernels

template <class T, class A>
void resample(const PassArguments& arguments, int64_t i) {
  const ResizeTaps& taps = arguments.taps;
  const int64_t inner = arguments.inner, o = i / inner % arguments.to;
  const int64_t start = i / inner / arguments.to * arguments.from * inner + i % inner;
  const int64_t base = taps.base[o], count = taps.count[o], zero = 0;
  const A* weight = static_cast<const A*>(taps.weight) + o * taps.most;
  resize_kernels::Sum<A> sum(count <= 4);
  for (int64_t k = 0; k < count; ++k) {
    const int64_t place = inside(base + k, zero, arguments.from - 1);
    const A x = resize_kernels::load<T, A>(arguments.x, arguments.x_is_sum, start + place * inner);
    sum.add(weight[k], x);
  }
  resize_kernels::store<T, A>(arguments.y, arguments.y_is_sum, i, sum.total());
}

// Nearest copies elements without arithmetic.
template <class T, class A>
void copy_nearest(const PassArguments& arguments, int64_t i) {
  const int64_t inner = arguments.inner, o = i / inner % arguments.to;
  const int64_t start = i / inner / arguments.to * arguments.from * inner + i % inner;
  T* y = static_cast<T*>(arguments.y);
  if (arguments.taps.count[o] == 0) {
    y[i] = resize_kernels::Element<T, A>::of(static_cast<A>(arguments.outside));
  } else {
    y[i] = static_cast<const T*>(arguments.x)[start + arguments.taps.base[o] * inner];
  }
}

// The extrapolation value, where this axis is outside the input.
template <class T, class A>
void paint_outside(const PassArguments& arguments, int64_t i) {
  if (arguments.taps.count[i / arguments.inner % arguments.to] != 0) return;
  static_cast<T*>(arguments.y)[i] =
      resize_kernels::Element<T, A>::of(static_cast<A>(arguments.outside));
}

// The transpose of resample: x is the gradient of the output, y that of the input, and the taps are
// those of the forward pass, from `to` to `from`.
template <class T, class A>
void gather_gradient(const PassArguments& arguments, int64_t i) {
  const ResizeTaps& taps = arguments.taps;
  const int64_t inner = arguments.inner, j = i / inner % arguments.to;
  const int64_t start = i / inner / arguments.to * arguments.from * inner + i % inner;
  const int64_t first = taps.first[j], last = taps.last[j], zero = 0;
  const auto each_tap = [&](const auto& visit) {
    for (int64_t o = first; o <= last; ++o) {
      const int64_t base = taps.base[o], count = taps.count[o];
      const A* weight = static_cast<const A*>(taps.weight) + o * taps.most;
      // At an edge several taps of an output may read the same input.
      const bool edge = j == 0 || j == arguments.to - 1;
      int64_t k = edge ? 0 : larger(j - base, zero);
      const int64_t end = edge ? count : smaller(j - base + 1, count);
      for (; k < end; ++k) {
        if (inside(base + k, zero, arguments.to - 1) == j) visit(o, weight[k]);
      }
    }
  };
  int64_t count = 0;
  each_tap([&](int64_t, A) { ++count; });
  resize_kernels::Sum<A> sum(count <= 4);
  each_tap([&](int64_t o, A weight) {
    sum.add(weight, resize_kernels::load<T, A>(arguments.x, arguments.x_is_sum, start + o * inner));
  });
  resize_kernels::store<T, A>(arguments.y, arguments.y_is_sum, i, sum.total());
}

}  // namespace myops

MYOPS_KERNEL(make_taps, TapArguments, make_taps)
MYOPS_KERNEL(find_outputs, TapArguments, find_outputs)
MYOPS_KERNEL(resample, PassArguments, resample)
MYOPS_KERNEL(copy_nearest, PassArguments, copy_nearest)
MYOPS_KERNEL(paint_outside, PassArguments, paint_outside)
MYOPS_KERNEL(gather_gradient, PassArguments, gather_gradient)
