// Weighted resampling of any number of axes, one axis at a time, in bounded memory.
//
// A level resamples its axis by combining slabs, each of which the next level has made from one
// index of the source. Neighbouring outputs share slabs, so each level keeps the last few in a
// ring. A picture needs a ring of 2 or 4 rows, a volume one of 2 pictures besides: no level ever
// stores its full result. The innermost level reads the source itself.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "plan.h"
#include "rows.h"

namespace myops::resize::MYOPS_ISA {

// A larger result would push everything else out of the last cache.
inline constexpr int64_t kStreamedBytes = 16 << 20;

// The working memory of one parallel piece.
template <class T, class Wide>
class Resampler {
 public:
  // `row_taps`: those of the last level. `streaming`: the result goes past the caches.
  Resampler(const KernelContext& context, const Plan<Wide>& plan, const RowTaps<Wide>& row_taps,
            bool streaming)
      : context_(context), plan_(plan), row_taps_(row_taps), streaming_(streaming) {
    rings_.resize(plan.levels.size() - 1);
    for (size_t i = 0; i < rings_.size(); ++i) {
      const Level<Wide>& level = plan.levels[i];
      rings_[i].owner.resize(static_cast<size_t>(level.taps.span));
      rings_[i].memory.emplace(
          context.scratch(sizeof(Wide) * static_cast<size_t>(level.taps.span * level.out_volume)));
    }
    for (const Level<Wide>& level : plan.levels) {
      rows_.emplace_back(static_cast<size_t>(level.taps.widest));
    }
  }

  // Writes the slabs [begin, end) of a level's result to `target`.
  template <class Out>
  void fill(size_t depth, int64_t begin, int64_t end, const T* source, Out* target) {
    if (depth + 1 == plan_.levels.size()) {
      fill_last(depth, begin, end, source, target);
      return;
    }
    const Level<Wide>& level = plan_.levels[depth];
    std::vector<const Wide*>& rows = rows_[depth];
    std::fill(rings_[depth].owner.begin(), rings_[depth].owner.end(), -1);
    for (int64_t o = begin; o < end; ++o) {
      const int64_t first = level.taps.first[o], count = level.taps.count(o);
      for (int64_t k = 0; k < count; ++k) {
        rows[k] = slab(depth, level.taps.index[first + k], source);
      }
      combine_rows(rows.data(), level.taps.weight.data() + first, count, level.out_volume,
                   depth == 0 && streaming_, target + (o - begin) * level.out_volume);
    }
  }

 private:
  struct Ring {
    std::vector<int64_t> owner;  // the index whose slab each place holds; -1: none
    std::optional<Scratch> memory;
  };

  // The slab of one index, made unless the ring still has it. The indices of one output lie
  // within the ring's size, so they never displace each other.
  const Wide* slab(size_t depth, int64_t index, const T* source) {
    const Level<Wide>& level = plan_.levels[depth];
    const Level<Wide>& next = plan_.levels[depth + 1];
    const int64_t place = index % level.taps.span;
    Wide* memory = rings_[depth].memory->template as<Wide>() + place * level.out_volume;
    if (rings_[depth].owner[place] == index) return memory;
    rings_[depth].owner[place] = index;
    const T* at = source + index * level.in_volume;
    for (int64_t block = 0; block < level.blocks; ++block) {
      fill(depth + 1, 0, next.taps.output, at + block * next.taps.input * next.in_volume,
           memory + block * next.taps.output * next.out_volume);
    }
    return memory;
  }

  template <class Out>
  void fill_last(size_t depth, int64_t begin, int64_t end, const T* source, Out* target) {
    const Level<Wide>& level = plan_.levels[depth];
    const Taps<Wide>& taps = level.taps;
    const int64_t run = level.in_volume;
    const auto [low, wide] = widened(taps, begin, end, run, source);
    if (run == 1) {
      row_taps_.gather(begin, end, low, wide, target);
      return;
    }
    std::vector<const Wide*>& rows = rows_[depth];
    for (int64_t o = begin; o < end; ++o) {
      const int64_t first = taps.first[o], count = taps.count(o);
      for (int64_t k = 0; k < count; ++k) rows[k] = wide + (taps.index[first + k] - low) * run;
      combine_rows(rows.data(), taps.weight.data() + first, count, run, depth == 0 && streaming_,
                   target + (o - begin) * run);
    }
  }

  // The part of the source that the outputs [begin, end) need, as Wide, and its first index.
  std::pair<int64_t, const Wide*> widened(const Taps<Wide>& taps, int64_t begin, int64_t end,
                                          int64_t run, const T* source) {
    if constexpr (std::is_same_v<T, Wide>) {
      return {0, source};
    } else {
      int64_t low = taps.low, high = taps.high;
      if (end - begin < taps.output && taps.first[begin] < taps.first[end]) {
        const auto range = std::minmax_element(taps.index.begin() + taps.first[begin],
                                               taps.index.begin() + taps.first[end]);
        low = *range.first;
        high = *range.second;
      }
      const int64_t count = (high - low + 1) * run;
      if (count > wide_capacity_) {
        wide_memory_.emplace(context_.scratch(sizeof(Wide) * static_cast<size_t>(count)));
        wide_capacity_ = count;
      }
      widen(source + low * run, count, wide_memory_->template as<Wide>());
      return {low, wide_memory_->template as<Wide>()};
    }
  }

  const KernelContext& context_;
  const Plan<Wide>& plan_;
  const RowTaps<Wide>& row_taps_;
  bool streaming_;
  std::vector<Ring> rings_;
  std::vector<std::vector<const Wide*>> rows_;
  std::optional<Scratch> wide_memory_;
  int64_t wide_capacity_ = 0;
};

// Resamples a whole tensor; the plan has at least one level.
template <class T, class Wide>
void resample(const KernelContext& context, const Plan<Wide>& plan, const T* source, T* target) {
  const Level<Wide>& first = plan.levels.front();
  const RowTaps<Wide> row_taps(plan.levels.back().taps);
  const int64_t bytes = plan.outer * first.taps.output * first.out_volume * sizeof(T);
  const bool streaming = bytes > kStreamedBytes;
  for_each_run(context, plan, [&] {
    return [&, worker = Resampler<T, Wide>(context, plan, row_taps, streaming)](
               int64_t tensor, int64_t begin, int64_t end) mutable {
      worker.fill(0, begin, end, source + tensor * first.taps.input * first.in_volume,
                  target + (tensor * first.taps.output + begin) * first.out_volume);
      if (streaming) stream_end();
    };
  });
}

// The plan of a call that resizes nothing.
template <class T>
void copy_all(const KernelContext& context, int64_t count, const T* source, T* target) {
  context.parallel_for(count, 1 << 18, [&](int64_t begin, int64_t end) {
    std::copy(source + begin, source + end, target + begin);
  });
}

}  // namespace myops::resize::MYOPS_ISA
