// Rows that are combined before they are resampled, see Plan::rows_first().
#pragma once

#include "last_level.h"

namespace myops::resize::MYOPS_ISA {

// The working memory of one parallel piece.
template <class T, class Wide>
class RowsFirst {
 public:
  RowsFirst(const KernelContext& context, const Plan<Wide>& plan, const LastLevel<Wide>& last,
            Stores stores)
      : level_(plan.levels[plan.levels.size() - 2]),
        last_(last),
        reads_little_(last.reads_little(0, last.outputs())),
        row_(context.scratch_array<Wide>(reads_little_ ? 0 : level_.in_volume)),
        rows_(context.scratch_array<const T*>(level_.taps.widest)) {
    if (std::is_same_v<T, Wide> && stores == Stores::NonTemporal) {
      result_.emplace(context.scratch_array<Wide>(level_.out_volume));
    }
  }

  // Writes the rows [begin, end) of the result to `target`.
  template <class Out>
  void fill(int64_t begin, int64_t end, const T* source, Stores stores, Out* target) {
    const TapTable<Wide>& taps = level_.taps;
    for (int64_t o = begin; o < end; ++o, target += level_.out_volume) {
      const int64_t first = taps.first[o];
      for (int64_t k = first; k < taps.first[o + 1]; ++k) {
        rows_[k - first] = source + taps.index[k] * level_.in_volume;
      }
      if (reads_little_) {
        const Wide* weights = taps.weight.data() + first;
        const auto value = [&](int64_t i) {
          return weighted<Wide>(
              taps.count(o), [&](int64_t k) { return weights[k]; },
              [&](int64_t k) { return static_cast<Wide>(rows_[k][i]); });
        };
        last_.fill_scalar(0, last_.outputs(), value, target);
        continue;
      }
      // Elements are widened here, once for each row that uses them: storing them widened would
      // need four times the cache.
      const Sums<Wide, T> sums{1, taps.first.data() + o, rows_.data(), taps.weight.data() + first};
      combine(taps.width, sums, level_.in_volume, Stores::Plain, row_.data());
      resample(stores, rows_after(o, source), target);
    }
  }

 private:
  // The source rows of the output after `o` that `o` itself does not use.
  PrefetchRange rows_after(int64_t o, const T* source) const {
    const TapTable<Wide>& taps = level_.taps;
    if (taps.count(o) == 0) return {};
    const int64_t rows = taps.input / taps.output, next = taps.index[taps.first[o + 1] - 1] + 1;
    return {source + next * level_.in_volume,
            static_cast<int64_t>(sizeof(T)) * rows * level_.in_volume / level_.out_volume};
  }

  // Resamples one combined row along the last level.
  template <class Out>
  void resample(Stores stores, const PrefetchRange& next, Out* target) {
    if constexpr (std::is_same_v<T, Wide> && std::is_same_v<Out, Wide>) {
      if (stores == Stores::NonTemporal) {
        Wide* result = result_->data();
        last_.fill(0, last_.outputs(), row_.data(), Stores::Plain, next, result);
        stream_copy(result, level_.out_volume, target);
        return;
      }
    }
    last_.fill(0, last_.outputs(), row_.data(), stores, next, target);
  }

  const Level<Wide>& level_;
  const LastLevel<Wide>& last_;
  const bool reads_little_;      // of the row
  ScratchArray<Wide> row_;       // combined
  ScratchArray<const T*> rows_;  // the source rows of row_
  std::optional<ScratchArray<Wide>> result_;
};

}  // namespace myops::resize::MYOPS_ISA
