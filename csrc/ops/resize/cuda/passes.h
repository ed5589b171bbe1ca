// A pass of resize on CUDA: one or two axes of a tensor, neighbours in memory, become the axes of
// the result. With two axes the sums over the first one are made again for each tap of the second,
// which costs less than to store them; launch.cpp decides where. Both orders of the axes have the
// bits of two passes, as these store sums in the type of the sums.
#pragma once

#include "resize/cuda/sums.h"

namespace myops {

// x of shape [outer, from[1], from[0], inner] becomes y of shape [outer, to[1], to[0], inner]; with
// one axis, [outer, from[0], inner] becomes [outer, to[0], inner].
struct PassArguments {
  const void* x;
  void* y;
  int32_t x_is_sum, y_is_sum;  // whether the elements are of type MYOPS_A, not MYOPS_T
  int32_t outer_first;         // whether axis 1 is summed first
  int64_t from[2], to[2];
  int64_t length;   // of a row of y: to[0] * inner
  Divisor inner;    // the elements behind axis 0
  Divisor threads;  // of a row
  Divisor outputs;  // to[1]
  TapTable taps[2];
  double outside;
};

// The elements of a thread. Neighbouring threads have neighbouring elements, so that a warp reads
// and writes few sectors of memory, whatever the factor: the elements of a thread are `threads`
// apart. Lanes, four neighbours that have the same taps, are read and written together.
constexpr int kResizeEach = 4;
constexpr int kResizeLanes = 4;

namespace resize_kernels {

// The elements behind the axes of a pass: one; a multiple of four, of which four that have the same
// taps are computed together, and which are aligned for Together; or another number.
enum Inner : int { kOne, kLanes, kOther };

// The row of y of a thread, and its first element there.
template <class I, int kAxes>
struct Row {
  Row(const PassArguments& pass, I i) {
    const I row = divided(i, pass.threads);
    first = i - row * static_cast<I>(pass.threads.by);
    y = static_cast<int64_t>(row) * pass.length;
    line = static_cast<I>(pass.from[0] * pass.inner.by);
    outer = 0;
    if (kAxes == 2) {
      const I outside = divided(row, pass.outputs);
      outer = row - outside * static_cast<I>(pass.to[1]);
      x = outside * static_cast<I>(pass.from[1]) * line;
    } else {
      x = row * line;
    }
  }
  I first;
  int64_t y;  // where the row begins
  I outer;    // the element of axis 1
  I line;     // from one element of axis 1 to the next, in x
  I x;        // where the elements of x begin that this row reads
};

// Element `at` of a row: that of axis 0, and the place behind it.
template <class I, Inner kInner>
struct Place {
  Place(const PassArguments& pass, I at)
      : element(kInner == kOne ? at : divided(at, pass.inner)),
        behind(kInner == kOne ? 0 : at - element * static_cast<I>(pass.inner.by)) {}
  I element, behind;
};

// Makes and then writes the elements of a thread. All are made before one is written, as the
// compiler does not know that y is other memory.
template <class I, class Made, class Put>
void each_of_thread(const PassArguments& pass, I first, const Made& made, const Put& put) {
  decltype(made(first)) all[kResizeEach];
  const I length = static_cast<I>(pass.length), step = static_cast<I>(pass.threads.by);
  // Beyond the row the last element is made again: a branch would wait for the loads of each.
  MYOPS_UNROLL
  for (int e = 0; e < kResizeEach; ++e) all[e] = made(smaller(first + e * step, length - 1));
  MYOPS_UNROLL
  for (int e = 0; e < kResizeEach; ++e) {
    if (first + e * step < length) put(first + e * step, all[e]);
  }
}

// X: the type of the elements of x. kFew: the number of taps that most elements have, if these
// differ; 0: they have many.
template <class X, class T, class A, class I, int kAxes, int kTaps, int kFew, Inner kInner>
void resample_from(const PassArguments& pass, int64_t i) {
  constexpr int kCount = kInner == kLanes ? kResizeLanes : 1;
  using Sums = Together<A, kCount>;
  const Row<I, kAxes> row(pass, static_cast<I>(i));
  const I step = static_cast<I>(pass.inner.by);
  const auto from_x = [&](I place) { return load<X, A, kCount>(pass.x, place); };
  const auto combined = [&](const auto& taps, const auto& outer, I x) {
    if constexpr (kAxes == 1) {
      return taps.template sum<kCount>([&](I k) { return from_x(x + k * step); });
    } else {
      if (pass.outer_first != 0) {
        return taps.template sum<kCount>([&](I k) {
          return outer.template sum<kCount>(
              [&](I j) { return from_x(x + k * step + j * row.line); });
        });
      }
      return outer.template sum<kCount>([&](I j) {
        return taps.template sum<kCount>([&](I k) { return from_x(x + j * row.line + k * step); });
      });
    }
  };
  using SomeTaps = Taps<A, I, kTaps>;
  const SomeTaps outer(pass.taps[kAxes - 1], row.outer);
  const auto put = [&](I at, const Sums& sums) {
    store<T, A>(pass.y, pass.y_is_sum != 0, row.y + at, sums);
  };
  const auto sum_of = [&](I at) -> Sums {
    const Place<I, kInner> place(pass, at);
    return combined(SomeTaps(pass.taps[0], place.element), outer, row.x + place.behind);
  };
  if constexpr (kTaps > 0) {
    if constexpr (kInner == kLanes) {
      put(row.first * kResizeLanes, sum_of(row.first * kResizeLanes));
    } else {
      each_of_thread(pass, row.first, sum_of, put);
    }
    return;
  } else {
    // As many elements at once as have about sixteen products.
    constexpr int kProducts = kAxes == 2 ? kFew * kFew : kFew;
    constexpr int kAtOnce = kInner == kLanes ? 1 : kProducts > 4 ? 2 : kResizeEach;
    constexpr I kStep = kInner == kLanes ? kResizeLanes : 1;
    const I length = static_cast<I>(pass.length), threads = static_cast<I>(pass.threads.by);
    const I further = threads * kStep * kAtOnce;
    // Not at += further: in a row of more than 2^30 elements this is no number of 32 bits.
    MYOPS_NO_UNROLL
    for (I at = row.first * kStep; at < length;
         at = at < length - further ? at + further : length) {
      if constexpr (kFew > 0) {
        // The same without a branch for each tap, if all of them have few.
        SomeTaps taps[kAtOnce];
        I x[kAtOnce];
        bool few = kAxes == 1 || outer.span.count <= kFew;
        MYOPS_UNROLL
        for (int e = 0; e < kAtOnce; ++e) {
          const Place<I, kInner> place(pass, smaller<I>(at + e * threads, length - 1));
          taps[e] = SomeTaps(pass.taps[0], place.element);
          x[e] = row.x + place.behind;
          few = few && taps[e].span.count <= kFew;
        }
        if (few) {
          const FewTaps<A, I, kFew> few_outer(outer);
          Sums sums[kAtOnce];
          MYOPS_UNROLL
          for (int e = 0; e < kAtOnce; ++e) {
            sums[e] = combined(FewTaps<A, I, kFew>(taps[e]), few_outer, x[e]);
          }
          MYOPS_UNROLL
          for (int e = 0; e < kAtOnce; ++e) {
            if (at + e * threads < length) put(at + e * threads, sums[e]);
          }
          continue;
        }
      }
      MYOPS_NO_UNROLL
      for (int e = 0; e < kAtOnce; ++e) {
        if (at + e * threads < length) put(at + e * threads, sum_of(at + e * threads));
      }
    }
  }
}

template <class T, class A, class I, int kAxes, int kTaps, int kFew, Inner kInner>
void resample(const PassArguments& pass, int64_t i) {
  constexpr bool kOneType = sizeof(T) == sizeof(A);  // float and double
  if (kOneType || pass.x_is_sum != 0) {
    resample_from<A, T, A, I, kAxes, kTaps, kFew, kInner>(pass, i);
  } else {
    resample_from<T, T, A, I, kAxes, kTaps, kFew, kInner>(pass, i);
  }
}

// Nearest copies elements without arithmetic.
template <class T, class A, class I, int kAxes, Inner kInner>
void copy(const PassArguments& pass, int64_t i) {
  constexpr int kCount = kInner == kLanes ? kResizeLanes : 1;
  const Row<I, kAxes> row(pass, static_cast<I>(i));
  const I inner = static_cast<I>(pass.inner.by);
  const I line = kAxes == 2 ? static_cast<const I*>(pass.taps[1].index)[row.outer] : 0;
  const auto found = [&](I at) {
    const Place<I, kInner> place(pass, at);
    const I index = static_cast<const I*>(pass.taps[0].index)[place.element];
    if (line >= 0 && index >= 0) {
      return load<T, T, kCount>(pass.x, row.x + line * row.line + index * inner + place.behind);
    }
    Together<T, kCount> outside;
    for (int e = 0; e < kCount; ++e) {
      outside.at[e] = Element<T, A>::of(static_cast<A>(pass.outside));
    }
    return outside;
  };
  const auto put = [&](I at, const Together<T, kCount>& elements) {
    *reinterpret_cast<Together<T, kCount>*>(static_cast<T*>(pass.y) + row.y + at) = elements;
  };
  if constexpr (kInner == kLanes) {
    put(row.first * kResizeLanes, found(row.first * kResizeLanes));
  } else {
    each_of_thread(pass, row.first, found, put);
  }
}

// The extrapolation value, where this axis is outside the input. x is not read.
template <class T, class A, class I>
void paint(const PassArguments& pass, int64_t i) {
  const int64_t o = i / pass.inner.by % pass.to[0];
  if (static_cast<const TapSpan<I>*>(pass.taps[0].span)[o].count != 0) return;
  static_cast<T*>(pass.y)[i] = Element<T, A>::of(static_cast<A>(pass.outside));
}

}  // namespace resize_kernels
}  // namespace myops

// One kernel.
#define MYOPS_RESIZE_KERNEL(name, body, ...)        \
  namespace myops {                                 \
  template <class T, class A>                       \
  void name(const PassArguments& pass, int64_t i) { \
    using namespace resize_kernels;                 \
    body<T, A, __VA_ARGS__>(pass, i);               \
  }                                                 \
  }                                                 \
  MYOPS_KERNEL(name, PassArguments, name)

// The kernels of a source, in all forms: of one axis and of two, for each kind of Inner.
#define MYOPS_RESIZE_KERNELS(name, body, ...)                                    \
  MYOPS_RESIZE_KERNEL(name##_one, body, int32_t, 1, __VA_ARGS__, kOne)           \
  MYOPS_RESIZE_KERNEL(name##_lanes, body, int32_t, 1, __VA_ARGS__, kLanes)       \
  MYOPS_RESIZE_KERNEL(name, body, int32_t, 1, __VA_ARGS__, kOther)               \
  MYOPS_RESIZE_KERNEL(name##_plane_one, body, int32_t, 2, __VA_ARGS__, kOne)     \
  MYOPS_RESIZE_KERNEL(name##_plane_lanes, body, int32_t, 2, __VA_ARGS__, kLanes) \
  MYOPS_RESIZE_KERNEL(name##_plane, body, int32_t, 2, __VA_ARGS__, kOther)
