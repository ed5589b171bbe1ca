// Kernel "long_rows": few rows of a long axis, in parts whose taps are computed where they are used
// (plan/long_axis.h). "nearest" and "linear" need one or two numbers for each output and no table;
// the others, channels and the edges of gradients have tables of a part.
#pragma once

#include "nearest.h"
#include "resample.h"

namespace myops::resize::MYOPS_ISA {

// The elements that outputs read, and the weights of the second ones.
template <class Wide>
class PartTaps {
 public:
  explicit PartTaps(const LongAxis<Wide>& axis)
      : taps_(axis.settings(), axis.axis()), linear_(axis.settings().mode == Mode::Linear) {}

  void make(int64_t begin, int64_t end) {
    left.resize(end - begin);
    if (linear_) right.resize(end - begin);
    taps_.places(begin, end - begin, left.data(), right.data());
  }
  std::vector<int32_t> left;
  std::vector<Wide> right;

 private:
  InterpolationTaps<Wide> taps_;
  bool linear_;
};

// Elements of a row from their two taps. `end` is the last element of the source.
template <class T, class Wide>
MYOPS_NOINLINE void linear_row(int64_t count, const int32_t* __restrict left,
                               const Wide* __restrict right, const T* __restrict source,
                               int32_t end, T* __restrict target) {
  for (int64_t i = 0; i < count; ++i) {
    const Wide a = static_cast<Wide>(source[left[i]]);
    const Wide b = static_cast<Wide>(source[std::min(left[i] + 1, end)]);
    target[i] = to_element<T>(fma(right[i], b, (1 - right[i]) * a));
  }
}

template <class T>
MYOPS_NOINLINE void nearest_row(int64_t count, const int32_t* __restrict left,
                                const T* __restrict source, T* __restrict target) {
  for (int64_t i = 0; i < count; ++i) target[i] = source[left[i]];
}

// A part of a gradient: elements [begin, begin + count) of the result, none of which is at an edge
// of the axis. `taps` are those of the outputs that read them, and of some before and after.
template <bool kLinear, class T, class Wide>
class GradientPart {
 public:
  GradientPart(const PartTaps<Wide>& taps, int64_t begin, int64_t count, bool few)
      : taps_(taps), begin_(begin), count_(count), few_(few) {
    const std::vector<int32_t>& left = taps.left;
    low_ = 0, high_ = static_cast<int64_t>(left.size());
    while (low_ < high_ && left[low_] < begin - kLinear) ++low_;
    while (low_ < high_ && left[high_ - 1] >= begin + count) --high_;
    if (!kLinear) ascends_ = std::adjacent_find(left.begin(), left.end()) == left.end();
    few_ ? sums_.resize(count + 2) : find_starts();
  }

  void row(const T* source, T* target) {
    if (few_) return scatter(source, target);
    switch (widest_) {
      case 0:
      case 1:
        return gather<1>(source, target);
      case 2:
        return gather<2>(source, target);
      case 3:
        return gather<3>(source, target);
      case 4:
        return gather<4>(source, target);
      default:
        return least_ > 4 && widest_ <= kPadded ? gather<kPadded>(source, target)
                                                : gather<0>(source, target);
    }
  }

 private:
  // Where at most four outputs read an element: outputs in order, with the sums of their elements
  // in registers. A sum begins with -0, which changes nothing that is added.
  MYOPS_NOINLINE void scatter(const T* __restrict source, T* __restrict target) {
    const int32_t* left = taps_.left.data();
    const Wide* right = taps_.right.data();
    if (ascends_) {
      std::fill_n(target, count_, T());
      for (int64_t o = low_; o < high_; ++o) target[left[o] - begin_] = source[o];
      return;
    }
    Wide* const sums = sums_.data() + 1;
    std::fill(sums_.begin(), sums_.end(), Wide(0));
    Wide a = -Wide(0), b = -Wide(0);
    for (int64_t o = low_, previous = -2; o < high_; ++o) {
      const int64_t place = left[o] - begin_, step = place - previous;
      const Wide x = static_cast<Wide>(source[o]);
      if constexpr (kLinear) {
        a = fma(1 - right[o], x, step == 0 ? a : step == 1 ? b : -Wide(0));
        b = fma(right[o], x, step == 0 ? b : -Wide(0));
        sums[place + 1] = b;
      } else {
        a = step == 0 ? a + x : x;
      }
      sums[place] = a;
      previous = place;
    }
    for (int64_t i = 0; i < count_; ++i) target[i] = to_element<T>(sums[i]);
  }

  // starts_[1 + i]: the first output whose left element is i or later, of the elements from -1 on.
  void find_starts() {
    starts_.assign(count_ + 4, static_cast<int32_t>(high_));
    for (int64_t o = high_; o-- > low_;) {
      starts_[1 + taps_.left[o] - begin_] = static_cast<int32_t>(o);
    }
    for (int64_t i = count_ + 2; i-- > 0;) starts_[i] = std::min(starts_[i], starts_[i + 1]);
    for (int64_t i = 0; i < count_; ++i) {
      const int32_t taps = starts_[i + 2] - starts_[i + !kLinear];
      widest_ = std::max(widest_, taps);
      least_ = std::min(least_, taps);
    }
  }

  static constexpr int kPadded = 16;

  // Elements from the at most kMost outputs that read them (0: any number; kPadded: more than
  // four), of which those before `middle` do it as the second one.
  template <int kMost>
  MYOPS_NOINLINE void gather(const T* __restrict source, T* __restrict target) const {
    const Wide* __restrict right = taps_.right.data();
    const int32_t* __restrict starts = starts_.data();
    const auto last = static_cast<int32_t>(high_ - 1);
    const int widest = widest_;
    for (int64_t i = 0; i < count_; ++i) {
      const int32_t start = starts[i + !kLinear], middle = starts[i + 1];
      const int32_t taps = starts[i + 2] - start;
      const auto weight = [&](int32_t o) MYOPS_INLINED {
        if constexpr (!kLinear) return Wide(1);
        const Wide w = right[o];
        return o < middle ? w : 1 - w;
      };
      if constexpr (kMost == 0) {
        target[i] = to_element<T>(weighted<Wide>(
            taps, [&](int64_t k) { return weight(start + static_cast<int32_t>(k)); },
            [&](int64_t k) { return static_cast<Wide>(source[start + k]); }));
        continue;
      }
      // The sum of slab_sum.h, padded as in lane_table.h.
      const auto add = [&](int k, Wide sum) MYOPS_INLINED {
        const int32_t o = std::min(start + k, last);
        const Wide w = weight(o), x = static_cast<Wide>(source[o]);
        const Wide value = k < taps ? x : Wide(0);
        const Wide factor = k < taps ? w : -Wide(0);
        return fma(factor, value, sum);
      };
      if constexpr (kMost <= 4) {
        Wide sum = -Wide(0);
        for (int k = 0; k < kMost; ++k) sum = add(k, sum);
        target[i] = to_element<T>(taps == 0 ? Wide(0) : sum);
      } else {
        Wide a{}, b{}, c{}, d{};
        for (int k = 0; k < widest; k += 4) {
          a = add(k, a), b = add(k + 1, b), c = add(k + 2, c), d = add(k + 3, d);
        }
        target[i] = to_element<T>((a + c) + (b + d));
      }
    }
  }

  const PartTaps<Wide>& taps_;
  const int64_t begin_, count_;
  bool few_;
  bool ascends_ = false;  // no two outputs read the same element
  int64_t low_, high_;
  std::vector<Wide> sums_;  // of the elements from -1 on
  std::vector<int32_t> starts_;
  int32_t widest_ = 0, least_ = std::numeric_limits<int32_t>::max();
};

template <bool kBackward, class T, class Wide>
class LongRows {
 public:
  LongRows(const KernelContext& context, const LongAxis<Wide>& axis, const T* source, T* target)
      : context_(context), axis_(axis), taps_(axis), source_(source), target_(target) {}

  void run(int64_t number) {
    const Mode mode = axis_.settings().mode;
    const bool plain = axis_.is_plain();
    if constexpr (kBackward) {
      const bool edge = number == 0 || number + 1 == axis_.parts();
      if (!plain || edge) return with_tables(number);
      mode == Mode::Linear ? gradient<true>(number) : gradient<false>(number);
    } else {
      if (!plain) return with_tables(number);
      const int64_t begin = axis_.begin(number), count = axis_.end(number) - begin;
      taps_.make(begin, begin + count);
      each_row(0, begin, [&](const T* from, T* to) {
        if (mode == Mode::Nearest) return nearest_row(count, taps_.left.data(), from, to);
        linear_row(count, taps_.left.data(), taps_.right.data(), from,
                   static_cast<int32_t>(axis_.axis().input - 1), to);
      });
    }
  }

 private:
  // fill(source, target) for each row, from these indices of the axis on.
  template <class Fill>
  void each_row(int64_t low, int64_t begin, const Fill& fill) const {
    const int64_t volume = axis_.volume();
    for (int64_t row = 0; row < axis_.tensors(); ++row) {
      fill(source_ + (row * axis_.input() + low) * volume,
           target_ + (row * axis_.output() + begin) * volume);
    }
  }

  template <bool kLinear>
  void gradient(int64_t number) {
    const Axis& axis = axis_.axis();
    const int64_t begin = axis_.begin(number), count = axis_.end(number) - begin;
    const auto [from, to] = axis_.readers(number);
    taps_.make(from, to);
    if (taps_.left.empty() || taps_.left.front() <= 0 || taps_.left.back() >= axis.input - 2) {
      return with_tables(number);
    }
    GradientPart<kLinear, T, Wide> part(taps_, begin, count, has_few_readers<kLinear>());
    each_row(from, begin, [&](const T* source, T* target) { part.row(source, target); });
  }

  // Whether an element is read by at most four outputs: coordinates are rounded to a quarter.
  template <bool kLinear>
  bool has_few_readers() const {
    constexpr double kMost = kLinear ? 1.4 : 2.5;
    const Axis& axis = axis_.axis();
    return axis.input <= 1 << 22 &&
           static_cast<double>(axis.output) <= kMost * static_cast<double>(axis.input);
  }

  void with_tables(int64_t number) {
    int64_t low = 0;
    Tables<Wide> tables;
    tables.plan = axis_.part(number, low);
    const Plan<Wide>& plan = tables.plan;
    const int64_t count = plan.levels.front().taps.output;
    const auto each = [&](const auto& fill) { each_row(low, axis_.begin(number), fill); };
    if (axis_.settings().mode == Mode::Nearest && !kBackward) {
      const Nearest<T, Wide> nearest(tables, T());  // (no output lies outside the input)
      return each([&](const T* from, T* to) { nearest.fill(0, 0, count, from, to); });
    }
    const LastAxis<Wide> sums(context_, plan, tables.last);
    each([&](const T* from, T* to) { sums.part(0, count, from, to); });
  }

  const KernelContext& context_;
  const LongAxis<Wide>& axis_;
  PartTaps<Wide> taps_;
  const T* source_;
  T* target_;
};

template <bool kBackward, class T, class Wide>
void run_long_rows(const KernelContext& context, const LongAxis<Wide>& axis, const T* source,
                   T* target) {
  constexpr int64_t kTogether = 4;
  if (context.reports()) {
    context.report("long_rows", "level 1 of 1",
                   str(axis.input(), " -> ", axis.output(), " slabs of ", axis.volume(),
                       " elements, in ", axis.parts(), " parts with taps of their own"));
  }
  context.parallel_for(axis.parts(), kTogether, [&](int64_t first, int64_t last) {
    LongRows<kBackward, T, Wide> rows(context, axis, source, target);
    for (int64_t number = first; number < last; ++number) rows.run(number);
  });
}

}  // namespace myops::resize::MYOPS_ISA
