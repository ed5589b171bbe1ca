// resize on CUDA: the tables of a call, made on the device. For each element of the result of an
// axis they list the elements that it sums, and the weight of each: forward, the taps of an output;
// in the gradient, the outputs that read an input, so that no two threads add to one element.
// Passes (passes.h) read both in the same way.
#pragma once

#include "resize/cuda/coordinates.h"

namespace myops {

// Of one axis, in memory of the device. I is the type of indices: 32 bits unless a tensor is too
// large.
struct TapTable {
  int64_t most;  // places for each output, if this is the table of the outputs
  void* index;   // [places], of type I: what is summed
  void* weight;  // [places], of type MYOPS_A
  void* span;    // [elements], of type TapSpan<I>
};

// The places of one element.
template <class I>
struct alignas(4 * sizeof(I) < 16 ? 4 * sizeof(I) : 16) TapSpan {
  I start, count;
  I first, neighbours;  // if neighbours is 1, what is summed is first, first + 1, ...
};

struct TapArguments {
  static constexpr int kMostAxes = 2;  // in one launch
  int32_t axes;
  int32_t one_each;  // "nearest": index is -1 where an output is outside
  struct Axis {
    ResizeAxis axis;
    TapTable taps;     // of the outputs
    void *low, *high;  // for the gradient: of each output, see TapRange
    int64_t* filled;   // for the gradient: places of `lists` that are in use
    TapTable lists;    // for the gradient: of the inputs
  } of[kMostAxes];
};

namespace resize_kernels {

// The number of leading elements of a sorted list for which `holds(element)` is true.
template <class I, class Holds>
I count_leading(const I* list, I length, const Holds& holds) {
  I begin = 0, end = length;
  while (begin < end) {
    const I middle = begin + (end - begin) / 2;
    if (holds(list[middle])) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

// The outputs that may read an input: `low` and `high` both grow or both fall.
template <class I>
struct Readers {
  Readers(const I* low, const I* high, I length, I i) {
    if (low[length - 1] >= low[0] && high[length - 1] >= high[0]) {
      first = count_leading(high, length, [&](I value) { return value < i; });
      last = count_leading(low, length, [&](I value) { return value <= i; }) - 1;
    } else {
      first = count_leading(low, length, [&](I value) { return value > i; });
      last = count_leading(high, length, [&](I value) { return value >= i; }) - 1;
    }
  }
  I first, last;
};

// Output o of an axis.
template <class A, class I>
void make_taps_of(const TapArguments::Axis& of, bool one_each, int64_t o) {
  const int64_t most = of.taps.most, zero = 0, last = of.axis.input - 1;
  A* weight = static_cast<A*>(of.taps.weight) + o * most;
  I* index = static_cast<I*>(of.taps.index) + o * most;
  const TapRange range = taps_of<A>(of.axis, o, most, weight);
  for (int64_t k = 0; k < most; ++k) {
    index[k] = static_cast<I>(inside(range.base + smaller(k, range.count), zero, last));
    if (k >= range.count) weight[k] = 0;
  }
  if (one_each && range.count == 0) index[0] = -1;
  const bool neighbours = range.base >= 0 && range.base + range.count <= last + 1;
  static_cast<TapSpan<I>*>(of.taps.span)[o] = {static_cast<I>(o * most),
                                               static_cast<I>(range.count),
                                               static_cast<I>(range.base), neighbours};
  if (of.low == nullptr) return;
  static_cast<I*>(of.low)[o] = static_cast<I>(range.low);
  static_cast<I*>(of.high)[o] = static_cast<I>(range.high);
  if (o == 0) *of.filled = 0;
}

// Calls visit(output, weight) for each tap that reads input i, in the order of the outputs.
template <class A, class I, class Visit>
void each_reader(const TapArguments::Axis& of, const Readers<I>& readers, I i, const Visit& visit) {
  const I most = static_cast<I>(of.taps.most);
  for (I o = readers.first; o <= readers.last; ++o) {
    const I count = static_cast<const TapSpan<I>*>(of.taps.span)[o].count;
    const I* index = static_cast<const I*>(of.taps.index) + static_cast<int64_t>(o) * most;
    const A* weight = static_cast<const A*>(of.taps.weight) + static_cast<int64_t>(o) * most;
    if (most > 4) {  // antialias and area: neighbours, none of them twice
      const I k = i - index[0];
      if (k >= 0 && k < count) visit(o, weight[k]);
      continue;
    }
    for (I k = 0; k < count; ++k) {  // at an edge, several taps may read the same input
      if (index[k] == i) visit(o, weight[k]);
    }
  }
}

template <class A, class I>
void list_readers_of(const TapArguments::Axis& of, int64_t i) {
  const I input = static_cast<I>(i);
  const Readers<I> readers(static_cast<const I*>(of.low), static_cast<const I*>(of.high),
                           static_cast<I>(of.axis.output), input);
  TapSpan<I> span{0, 0, 0, 1};
  I next = 0;
  each_reader<A>(of, readers, input, [&](I o, A) {
    if (span.count == 0) next = span.first = o;
    if (o != next) span.neighbours = 0;
    ++next, ++span.count;
  });
  const int64_t start = count_up(of.filled, span.count);
  span.start = static_cast<I>(start);
  static_cast<TapSpan<I>*>(of.lists.span)[i] = span;
  I* index = static_cast<I*>(of.lists.index) + start;
  A* weights = static_cast<A*>(of.lists.weight) + start;
  each_reader<A>(of, readers, input, [&](I o, A weight) {
    *index++ = o;
    *weights++ = weight;
  });
}

template <class A, class I>
void make_any_taps(const TapArguments& arguments, int64_t i) {
  const int64_t first = arguments.of[0].axis.output;
  const bool second = i >= first;
  make_taps_of<A, I>(arguments.of[second], arguments.one_each != 0, second ? i - first : i);
}
template <class A, class I>
void list_any_readers(const TapArguments& arguments, int64_t i) {
  const int64_t first = arguments.of[0].axis.input;
  const bool second = i >= first;
  list_readers_of<A, I>(arguments.of[second], second ? i - first : i);
}

}  // namespace resize_kernels

}  // namespace myops
