// Kernel "nearest_columns": copies within many rows of a few elements, and the gradient where rows
// shrink. The same element of some rows is copied before the next one of each: a loop for each row
// would take several times as long as its copies.
#pragma once

#include "../plan/plan.h"

namespace myops::resize::MYOPS_ISA {

template <class T, class Wide>
class NearestColumns {
 public:
  // `plan`: of nearest, or of its gradient, in which no element has two taps.
  static bool supports(const Plan<Wide>& plan) {
    constexpr int64_t kShort = 64, kMany = 16;
    const Level<Wide>& level = plan.levels.front();
    return plan.levels.size() == 1 && level.in_volume == 1 && level.taps.widest == 1 &&
           std::max(level.taps.input, level.taps.output) <= kShort && plan.outer >= kMany &&
           kernel_enabled("resize.nearest_columns");
  }

  explicit NearestColumns(const Plan<Wide>& plan) : taps_(plan.levels.front().taps) {
    for (int64_t o = 0; o < taps_.output; ++o) {
      if (taps_.count(o) > 0) places_.push_back(o);
    }
  }

  // Elements without a tap get `outside`.
  void rows(int64_t begin, int64_t end, const T* source, T outside, T* target) const {
    const int64_t in = taps_.input, out = taps_.output;
    const int64_t together = kElements / std::max(in, out);
    for (int64_t row = begin; row < end; row += together) {
      const int64_t count = std::min(together, end - row);
      T* const to = target + row * out;
      if (taps_.has_empty) std::fill_n(to, count * out, outside);
      for (size_t k = 0; k < places_.size(); ++k) {
        copy(count, source + row * in + taps_.index[k], in, to + places_[k], out);
      }
    }
  }

  // Rows of which the L1 cache holds what is read and written; some of them are a piece.
  static constexpr int64_t kElements = (8 << 10) / static_cast<int64_t>(sizeof(T));
  static int64_t grain(const Plan<Wide>& plan) {
    const TapTable<Wide>& taps = plan.levels.front().taps;
    return 8 * (kElements / std::max(taps.input, taps.output));
  }

 private:
  static void copy(int64_t count, const T* __restrict source, int64_t in, T* __restrict target,
                   int64_t out) {
    for (int64_t i = 0; i < count; ++i) target[i * out] = source[i * in];
  }

  const TapTable<Wide>& taps_;
  std::vector<int64_t> places_;  // of each tap
};

// Runs it, if it supports the plan.
template <class T, class Wide>
bool copied_columns(const KernelContext& context, const Plan<Wide>& plan, const T* source,
                    T outside, T* target) {
  if (!NearestColumns<T, Wide>::supports(plan)) return false;
  if (context.reports()) report(context, plan, [](size_t) { return "nearest_columns"; });
  const NearestColumns<T, Wide> columns(plan);
  context.parallel_for(
      plan.outer, NearestColumns<T, Wide>::grain(plan),
      [&](int64_t begin, int64_t end) { columns.rows(begin, end, source, outside, target); });
  return true;
}

}  // namespace myops::resize::MYOPS_ISA
