// Weighted resampling of any number of axes, one axis at a time, in bounded memory.
//
// A level resamples its axis by combining slabs, each of which the next level has made from one
// index of the source. Neighbouring outputs share slabs, so each level keeps the last few in a
// ring. A picture needs a ring of 2 or 4 rows, a volume one of 2 pictures besides: no level ever
// stores its full result. The innermost level reads the source itself.
//
// Of the last two levels, rows and columns, the one that shrinks goes first: rows are combined
// before they are resampled where there are fewer of them afterwards. It depends on lengths alone.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "gather.h"
#include "plan.h"

namespace myops::resize::MYOPS_ISA {

// Results that fit no cache are written past them where that is faster.
inline constexpr int64_t kStreamedBytes = 16 << 20;

template <class T, class Wide>
bool streams(const Plan<Wide>& plan) {
  const Level<Wide>& first = plan.levels.front();
  const int64_t elements = plan.outer * first.taps.output * first.out_volume;
  return elements * static_cast<int64_t>(sizeof(T)) > kStreamedBytes && streaming_stores_pay();
}

// The working memory of one parallel piece.
template <class T, class Wide>
class Resampler {
 public:
  // `gather`: of the last level. `write`: how the result is written.
  Resampler(const KernelContext& context, const Plan<Wide>& plan, const Gather<Wide>& gather,
            Write write)
      : context_(context), plan_(plan), gather_(gather), write_(write) {
    rings_.resize(plan.levels.size() - 1);
    for (size_t i = 0; i < rings_.size(); ++i) {
      const Level<Wide>& level = plan.levels[i];
      if (plan.rows_first(i)) {
        row_.emplace(context.scratch(sizeof(Wide) * static_cast<size_t>(level.in_volume)));
        result_.emplace(context.scratch(sizeof(T) * static_cast<size_t>(level.out_volume)));
        if (std::is_same_v<T, Wide>) continue;  // rows are read where they are
      }
      int64_t places = 1;  // a power of two: finding a place must not cost a division
      while (places < level.taps.span) places *= 2;
      rings_[i].places = places;
      rings_[i].owner.emplace(context.scratch(sizeof(int64_t) * static_cast<size_t>(places)));
      rings_[i].memory.emplace(
          context.scratch(sizeof(Wide) * static_cast<size_t>(places * slab_size(i))));
    }
    for (const Level<Wide>& level : plan.levels) {
      const bool last = &level == &plan.levels.back();
      const int64_t rows = last && Gather<Wide>::takes(level.in_volume) ? 0 : level.taps.widest;
      rows_.push_back(context.scratch(sizeof(const Wide*) * static_cast<size_t>(rows)));
    }
  }

  // Writes the slabs [begin, end) of a level's result to `target`.
  template <class Out>
  void fill(size_t depth, int64_t begin, int64_t end, const T* source, Out* target) {
    if (depth + 1 == plan_.levels.size()) {
      fill_last(depth, begin, end, source, target, depth == 0 ? write_ : Write::Scratch);
      return;
    }
    const Level<Wide>& level = plan_.levels[depth];
    const bool rows_first = plan_.rows_first(depth);
    const Write write = depth == 0 ? write_ : Write::Scratch;
    const Wide** rows = rows_[depth].template as<const Wide*>();
    Ring& ring = rings_[depth];
    if (ring.places > 0) std::fill_n(ring.owner->template as<int64_t>(), ring.places, -1);
    for (int64_t o = begin; o < end; ++o, target += level.out_volume) {
      const int64_t first = level.taps.first[o], count = level.taps.count(o);
      const Wide* weights = level.taps.weight.data() + first;
      for (int64_t k = 0; k < count; ++k) {
        rows[k] = slab(depth, level.taps.index[first + k], source);
      }
      if (!rows_first) {
        combine_rows(rows, weights, count, level.out_volume, write, target);
        continue;
      }
      Wide* row = row_->template as<Wide>();
      combine_rows(rows, weights, count, level.in_volume, Write::Scratch, row);
      resample_row(row, write, target);
    }
  }

 private:
  struct Ring {
    int64_t places = 0;
    std::optional<Scratch> owner;  // the index whose slab each place holds; -1: none
    std::optional<Scratch> memory;
  };

  // Elements of a slab in a ring: of rows that are combined first, those of the source.
  int64_t slab_size(size_t depth) const {
    const Level<Wide>& level = plan_.levels[depth];
    return plan_.rows_first(depth) ? level.in_volume : level.out_volume;
  }

  // The slab of one index, made unless the ring still has it. The indices of one output lie
  // within the ring's size, so they never displace each other.
  const Wide* slab(size_t depth, int64_t index, const T* source) {
    const Level<Wide>& level = plan_.levels[depth];
    const Level<Wide>& next = plan_.levels[depth + 1];
    const T* at = source + index * level.in_volume;
    if constexpr (std::is_same_v<T, Wide>) {
      if (plan_.rows_first(depth)) return at;
    }
    const Ring& ring = rings_[depth];
    const int64_t place = index & (ring.places - 1);
    Wide* memory = ring.memory->template as<Wide>() + place * slab_size(depth);
    int64_t& owner = ring.owner->template as<int64_t>()[place];
    if (owner == index) return memory;
    owner = index;
    if (plan_.rows_first(depth)) {
      widen(at, level.in_volume, memory);
      return memory;
    }
    for (int64_t block = 0; block < level.blocks; ++block) {
      fill(depth + 1, 0, next.taps.output, at + block * next.taps.input * next.in_volume,
           memory + block * next.taps.output * next.out_volume);
    }
    return memory;
  }

  // The last level of one row that has been combined.
  template <class Out>
  void resample_row(const Wide* row, Write write, Out* target) {
    const Level<Wide>& last = plan_.levels.back();
    if constexpr (std::is_same_v<Out, Wide>) {
      if (write == Write::Streamed) {
        Wide* result = result_->template as<Wide>();
        fill_from(0, last.taps.output, row, Write::Scratch, result);
        stream_copy(result, last.taps.output * last.out_volume, target);
        return;
      }
    }
    fill_from(0, last.taps.output, row, write, target);
  }

  template <class Out>
  void fill_last(size_t depth, int64_t begin, int64_t end, const T* source, Out* target,
                 Write write) {
    if constexpr (std::is_same_v<T, Wide>) {
      fill_from(begin, end, source, write, target);
    } else {
      const Level<Wide>& level = plan_.levels[depth];
      const int64_t run = level.in_volume;
      const auto [low, high] = gather_.reads(begin * run, end * run);
      if (high - low > wide_capacity_) {
        wide_memory_.emplace(context_.scratch(sizeof(Wide) * static_cast<size_t>(high - low)));
        wide_capacity_ = high - low;
      }
      Wide* wide = wide_memory_->template as<Wide>();
      widen(source + low, high - low, wide);
      fill_from(begin, end, wide - low, write, target);
    }
  }

  // Outputs [begin, end) of the last level from its first source element on.
  template <class Out>
  void fill_from(int64_t begin, int64_t end, const Wide* source, Write write, Out* target) {
    const Level<Wide>& level = plan_.levels.back();
    const Taps<Wide>& taps = level.taps;
    const int64_t run = level.in_volume;
    if (Gather<Wide>::takes(run)) {
      return gather_.sum(begin * run, end * run, source, write != Write::Scratch, target);
    }
    const Wide** rows = rows_.back().template as<const Wide*>();
    for (int64_t o = begin; o < end; ++o, target += run) {
      const int64_t first = taps.first[o], count = taps.count(o);
      for (int64_t k = 0; k < count; ++k) rows[k] = source + taps.index[first + k] * run;
      combine_rows(rows, taps.weight.data() + first, count, run, write, target);
    }
  }

  const KernelContext& context_;
  const Plan<Wide>& plan_;
  const Gather<Wide>& gather_;
  Write write_;
  std::vector<Ring> rings_;
  std::vector<Scratch> rows_;            // for each level, the rows of one output
  std::optional<Scratch> row_, result_;  // for rows that are combined first
  std::optional<Scratch> wide_memory_;
  int64_t wide_capacity_ = 0;
};

// Resamples a whole tensor; the plan has at least one level.
template <class T, class Wide>
void resample(const KernelContext& context, const Plan<Wide>& plan, const T* source, T* target) {
  const Level<Wide>& first = plan.levels.front();
  take_gather(context, plan.levels.back().taps, plan.levels.back().in_volume);
  const Gather<Wide> gather(plan.levels.back().taps, plan.levels.back().in_volume);
  const Write write = streams<T>(plan) ? Write::Streamed : Write::Result;
  for_each_run(context, plan, [&] {
    return [&, worker = Resampler<T, Wide>(context, plan, gather, write)](
               int64_t tensor, int64_t begin, int64_t end) mutable {
      worker.fill(0, begin, end, source + tensor * first.taps.input * first.in_volume,
                  target + (tensor * first.taps.output + begin) * first.out_volume);
      stream_end();
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
