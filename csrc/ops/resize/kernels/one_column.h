// Kernel "one_column": images of a single column, each element of which contributes at most once to
// each column of the result, as in the gradient of a resize to one column. A row of the result is
// the row of weights times a number, so that nothing is transposed and no strip of rows is needed.
//
// The sums are those of slab_sum.h, in the same order.
#pragma once

#include "../plan/plan.h"
#include "slab_sum.h"

namespace myops::resize::MYOPS_ISA {

template <class T, class Wide>
class OneColumn {
  using V = Vector<Wide>;
  static constexpr int64_t L = kLanes<Wide>;

 public:
  static bool supports(const Plan<Wide>& plan) {
    constexpr int64_t kMostColumns = 128;
    const Level<Wide>&first = plan.levels.front(), &last = plan.levels.back();
    const bool image = plan.levels.size() == 1 || (plan.levels.size() == 2 && first.blocks == 1);
    return image && last.in_volume == 1 && last.taps.input == 1 && last.taps.widest == 1 &&
           last.taps.output <= kMostColumns;
  }

  OneColumn(const KernelContext& context, const Plan<Wide>& plan)
      : plan_(plan),
        columns_(plan.levels.back().taps.output),
        low_(columns_),
        high_(0),
        vectors_(context.scratch_array<Wide>(3 * pitch())) {
    std::fill_n(vectors_.data(), 3 * pitch(), Wide(0));
    const TapTable<Wide>& taps = plan.levels.back().taps;
    for (int64_t column = 0; column < columns_; ++column) {
      if (taps.count(column) == 0) continue;
      low_ = std::min(low_, column), high_ = column + 1;
      vectors_.data()[column] = taps.weight[taps.first[column]];
      vectors_.data()[2 * pitch() + column] = Wide(1);
    }
    const Level<Wide>& rows = plan.levels.front();
    const bool few_rows = 2 * rows.taps.first[rows.taps.output] < rows.taps.output;  // not zeros
    // In a sum with a negative weight, columns without a weight are -0, and so are the elements of
    // a vector behind the last column, which the next row must overwrite.
    const bool zeros = rows.first || not_negative(rows.taps.weight), short_row = columns_ <= L;
    if (short_row || !zeros) low_ = 0, high_ = columns_;
    fills_ = (zeros || !short_row) && (few_rows || low_ > 0 || high_ < columns_);
  }

  // Outputs [begin, end) of the first level of a tensor whose column begins at `source`.
  void run(int64_t begin, int64_t end, const T* source, T* target) const {
    const Level<Wide>& level = plan_.levels.front();
    if (fills_) {
      std::memset(static_cast<void*>(target), 0, bytes_of<T>((end - begin) * level.out_volume));
    }
    if (plan_.levels.size() == 1) return store_row(1, target, scaled(weights(), *source));
    if (level.first) return combined(begin, end, source, target);
    switch (level.taps.widest) {
      case 1:
        return few<1>(begin, end, source, target);
      case 2:
        return few<2>(begin, end, source, target);
      case 3:
        return few<3>(begin, end, source, target);
      case 4:
        return few<4>(begin, end, source, target);
      default:
        return many(begin, end, source, target);
    }
  }

 private:
  int64_t pitch() const { return columns_ + L; }  // a vector can be loaded from any column on
  const Wide* weights() const { return vectors_.data(); }
  const Wide* zeros() const { return weights() + pitch(); }
  const Wide* ones() const { return zeros() + pitch(); }

  static bool not_negative(const std::vector<Wide>& weights) {
    return std::all_of(weights.begin(), weights.end(), [](Wide weight) { return weight >= 0; });
  }

  // The vector of columns from i on: a row of weights times an element. Columns without a weight
  // are 0, even where the element is infinite or NaN.
  template <class Element>
  auto scaled(const Wide* row, Element element) const {
    return [this, row, value = broadcast(static_cast<Wide>(element))](int64_t i)
               MYOPS_INLINED { return load(ones() + i) != V{} ? load(row + i) * value : V{}; };
  }

  // The columns [low_, high_) of a row, the first of `left`; make(i): the vector of columns from i
  // on. A whole vector is stored where it ends before the last row does: behind high_ it has zeros,
  // and the rows that follow overwrite what belongs to them.
  template <class Make>
  MYOPS_INLINE void store_row(int64_t left, T* target, const Make& make) const {
    if (high_ - low_ <= L) {
      if (left * columns_ - low_ >= L) return store_narrow<Wide>(target + low_, make(low_));
      return store_part<Wide>(target + low_, make(low_), high_ - low_);
    }
    for (int64_t i = low_; i < high_; i += L) {
      i = std::min(i, high_ - L);  // the last ones a second time
      store_narrow<Wide>(target + i, make(i));
    }
  }

  // Rows of one sum each.
  void combined(int64_t begin, int64_t end, const T* source, T* target) const {
    const TapTable<Wide>& taps = plan_.levels.front().taps;
    for (int64_t o = begin; o < end; ++o, target += columns_) {
      const int64_t first = taps.first[o];
      const Wide sum = weighted<Wide>(
          taps.count(o), [&](int64_t k) { return taps.weight[first + k]; },
          [&](int64_t k) { return static_cast<Wide>(source[taps.index[first + k]]); });
      store_row(end - o, target, scaled(weights(), sum));
    }
  }

  // Sums of at most kTaps rows, padded as in lane_table.h.
  template <int kTaps>
  MYOPS_NOINLINE void few(int64_t begin, int64_t end, const T* source, T* target) const {
    const TapTable<Wide>& taps = plan_.levels.front().taps;
    const int64_t last = taps.first[taps.output] - 1;
    for (int64_t o = begin; o < end; ++o, target += columns_) {
      const int64_t first = taps.first[o], count = taps.first[o + 1] - first;
      if (fills_ && count == 0) continue;
      Wide weight[kTaps], value[kTaps];
      const Wide* row[kTaps];
      for (int k = 0; k < kTaps; ++k) {
        const int64_t tap = std::min(first + k, last);
        const Wide w = taps.weight[tap], x = static_cast<Wide>(source[taps.index[tap]]);
        const bool real = k < count;
        weight[k] = real ? w : k == 0 ? Wide(0) : -Wide(0);
        value[k] = real ? x : Wide(0);
        row[k] = real ? weights() : zeros();
      }
      store_row(end - o, target, [&](int64_t i) MYOPS_INLINED {
        V sum = broadcast(weight[0]) * scaled(row[0], value[0])(i);
        for (int k = 1; k < kTaps; ++k) {
          sum = fma(broadcast(weight[k]), scaled(row[k], value[k])(i), sum);
        }
        return sum;
      });
    }
  }

  void many(int64_t begin, int64_t end, const T* source, T* target) const {
    const TapTable<Wide>& taps = plan_.levels.front().taps;
    for (int64_t o = begin; o < end; ++o, target += columns_) {
      const int64_t first = taps.first[o];
      store_row(end - o, target, [&](int64_t i) MYOPS_INLINED {
        return weighted<V>(
            taps.count(o), [&](int64_t k) { return broadcast(taps.weight[first + k]); },
            [&](int64_t k) { return scaled(weights(), source[taps.index[first + k]])(i); });
      });
    }
  }

  const Plan<Wide>& plan_;
  int64_t columns_, low_, high_;  // those outside [low_, high_) have no weight
  bool fills_ = false;            // the result with zeros first
  // The weight of each column, or 0; zeros; and 1 for each column that has a weight.
  ScratchArray<Wide> vectors_;
};

}  // namespace myops::resize::MYOPS_ISA
