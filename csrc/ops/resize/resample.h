// Weighted resampling of any number of axes, one axis at a time, in bounded memory.
//
// A level resamples its axis by combining slabs, each of which the next level has made from one
// index of the source. Neighbouring outputs share slabs, so each level has the last few in a ring
// buffer. An image needs a ring of 2 or 4 rows, a volume also one of 2 images: no level ever stores
// its full result. The innermost level reads the source itself.
//
// Of the last two levels, rows and columns, the one that shrinks is processed first: rows are
// combined before they are resampled if there are fewer of them afterwards. This depends on lengths
// only.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "plan.h"
#include "row_pairs.h"
#include "rows_first.h"

namespace myops::resize::MYOPS_ISA {

// The working memory of one parallel piece.
template <class T, class Wide>
class Resampler {
 public:
  // `gather`: of the last level.
  Resampler(const KernelContext& context, const Plan<Wide>& plan, const Gather<Wide>& gather,
            Stores stores)
      : context_(context),
        plan_(plan),
        gather_(gather),
        stores_(stores),
        last_(context, plan, gather) {
    // Several rows at once are several streams of stores, but plain stores to memory are fast for
    // one stream only.
    if (stores == Stores::Prefetch && plan.bytes(sizeof(T)) >= cached_bytes()) together_ = 1;
    rings_.resize(plan.levels.size() - 1);
    slabs_.resize(rings_.size());
    for (size_t i = 0; i < rings_.size(); ++i) {
      const Level<Wide>& level = plan.levels[i];
      if (uses_row_pairs(i)) {
        const auto rows = [&](int64_t count) { return context.scratch(bytes_of<Wide>(count)); };
        if (plan.rows_first(i)) row_.emplace(rows(level.in_volume));
        if (stores == Stores::NonTemporal) result_.emplace(rows(together_ * level.out_volume));
      } else if (plan.rows_first(i)) {
        rows_first_.emplace(context, plan, last_, stores);
      } else {
        make_ring(i);
      }
    }
  }

  Resampler(const Resampler&) = delete;  // rows_first_ refers to last_

  // Writes the slabs [begin, end) of a level's result to `target`.
  template <class Out>
  void fill(size_t depth, int64_t begin, int64_t end, const T* source, Out* target) {
    const Stores stores = depth == 0 ? stores_ : Stores::Plain;
    if (depth + 1 == plan_.levels.size()) return fill_last(begin, end, source, stores, target);
    if constexpr (std::is_same_v<T, Wide> && std::is_same_v<Out, Wide>) {
      if (uses_row_pairs(depth)) {
        const RowPairScratch<Wide> memory{row_ ? row_->template as<Wide>() : nullptr,
                                          result_ ? result_->template as<Wide>() : nullptr};
        return fill_row_pairs(plan_, gather_, memory, together_, stores, begin, end, source,
                              target);
      }
    }
    if (plan_.rows_first(depth)) return rows_first_->fill(begin, end, source, stores, target);
    const Level<Wide>& level = plan_.levels[depth];
    std::fill_n(rings_[depth].owners(), rings_[depth].places, -1);
    for (int64_t o = begin; o < end;) {
      const Sums<Wide> sums = tile(depth, o, end, source);
      combine(level.taps.width, sums, level.out_volume, stores, target);
      o += sums.count;
      target += sums.count * level.out_volume;
    }
  }

 private:
  // The number of rows that are resampled together, so that tables which do not fit the registers
  // are loaded once for all: as many as fit the L1 cache and a little of the L2 cache.
  static constexpr int64_t kMostRows = 8, kRowsBytes = 40 << 10;

  struct Ring {
    int64_t places = 0;
    int64_t together = 1;  // slabs that are made together; divides `places`
    std::optional<Scratch> owner, memory;

    // The index of the slab in each place; -1: none.
    int64_t* owners() const { return owner->template as<int64_t>(); }
  };

  // Whether a level is made by fill_row_pairs(), which combines whole rows if these are processed
  // first.
  bool uses_row_pairs(size_t depth) const {
    return std::is_same_v<T, Wide> && plan_.from_row_pairs(depth) &&
           !(plan_.rows_first(depth) && last_.reads_little(0, last_.outputs()));
  }

  void make_ring(size_t depth) {
    const Level<Wide>& level = plan_.levels[depth];
    Ring& ring = rings_[depth];
    if (depth + 2 == plan_.levels.size() && level.blocks == 1 && last_.gathers()) {
      int64_t row = level.out_volume;
      if (!std::is_same_v<T, Wide>) row += level.in_volume;  // widened
      const int64_t bytes = row * static_cast<int64_t>(sizeof(Wide));
      while (ring.together < kMostRows && 2 * ring.together * bytes <= kRowsBytes) {
        ring.together *= 2;
      }
    }
    ring.places = 1;  // a power of two, so that finding a place needs no division
    while (ring.places < level.taps.span + ring.together - 1) ring.places *= 2;
    ring.owner.emplace(context_.scratch(bytes_of<int64_t>(ring.places)));
    ring.memory.emplace(context_.scratch(bytes_of<Wide>(ring.places, level.out_volume)));
    const int64_t slabs = LastLevel<Wide>::tile_size(level.taps) * level.taps.widest;
    if (slabs == 0) return;
    slabs_[depth].emplace(context_.scratch(bytes_of<const Wide*>(slabs)));
  }

  // The terms of the slabs from `begin` on, as many of them as are in the ring; those of the first
  // slab are made if necessary.
  Sums<Wide> tile(size_t depth, int64_t begin, int64_t end, const T* source) {
    const Level<Wide>& level = plan_.levels[depth];
    const TapTable<Wide>& taps = level.taps;
    const Wide** slabs = slabs_[depth] ? slabs_[depth]->template as<const Wide*>() : nullptr;
    const int64_t first = taps.first[begin];
    const int64_t most = std::min(end - begin, LastLevel<Wide>::tile_size(taps));
    int64_t count = 0;
    for (; count < most; ++count) {
      bool complete = true;
      for (int64_t k = taps.first[begin + count]; k < taps.first[begin + count + 1]; ++k) {
        slabs[k - first] = slab(depth, taps.index[k], end, count == 0, source);
        complete = complete && slabs[k - first] != nullptr;
      }
      if (!complete) break;
    }
    return {count, taps.first.data() + begin, slabs, taps.weight.data() + first};
  }

  // The slab of one index. If it is not in the ring, it is made, or null is returned. The indices
  // of one output fit the ring together, so they never displace each other.
  const Wide* slab(size_t depth, int64_t index, int64_t end, bool make, const T* source) {
    const Level<Wide>& level = plan_.levels[depth];
    Ring& ring = rings_[depth];
    const int64_t place = index & (ring.places - 1);
    Wide* memory = ring.memory->template as<Wide>() + place * level.out_volume;
    int64_t* owner = ring.owners() + place;
    if (*owner == index) return memory;
    if (!make) return nullptr;
    const T* at = source + index * level.in_volume;
    if (ring.together > 1) {
      // Makes those up to the next multiple of `together` that the outputs before `end` need.
      const int64_t needed = level.taps.index[level.taps.first[end] - 1];
      int64_t count = 0;
      do {
        owner[count] = index + count;
        ++count;
      } while (index + count <= std::min(index | (ring.together - 1), needed) &&
               owner[count] != index + count);
      make_rows(count, at, memory);
      return memory;
    }
    *owner = index;
    const Level<Wide>& next = plan_.levels[depth + 1];
    for (int64_t block = 0; block < level.blocks; ++block) {
      fill(depth + 1, 0, next.taps.output, at + block * next.taps.input * next.in_volume,
           memory + block * next.taps.output * next.out_volume);
    }
    return memory;
  }

  // Makes several rows of the last level for the ring of the level before.
  void make_rows(int64_t count, const T* source, Wide* target) {
    const Level<Wide>& last = plan_.levels.back();
    const int64_t step = last.taps.input * last.in_volume;
    const auto [low, high] = gather_.reads(0, gather_.elements());
    const Wide* rows[kMostRows];
    if constexpr (std::is_same_v<T, Wide>) {
      for (int64_t row = 0; row < count; ++row) rows[row] = source + row * step;
    } else {
      const Wide* wide = widened(source + low, (count - 1) * step + high - low) - low;
      for (int64_t row = 0; row < count; ++row) rows[row] = wide + row * step;
    }
    gather_.sum(0, gather_.elements(),
                GatherRows<Wide, Wide>{rows, count, target, gather_.elements(), 0, {}});
  }

  template <class Out>
  void fill_last(int64_t begin, int64_t end, const T* source, Stores stores, Out* target) {
    if constexpr (std::is_same_v<T, Wide>) {
      last_.fill(begin, end, source, stores, {}, target);
    } else {
      if (last_.reads_little(begin, end)) {
        const auto value = [&](int64_t i) { return static_cast<Wide>(source[i]); };
        return last_.fill_scalar(begin, end, value, target);
      }
      const int64_t stride = last_.stride();
      const auto [low, high] = gather_.reads(begin * stride, end * stride);
      last_.fill(begin, end, widened(source + low, high - low) - low, stores, {}, target);
    }
  }

  const Wide* widened(const T* source, int64_t count) {
    if (!wide_memory_ || count > wide_capacity_) {
      wide_memory_.emplace(context_.scratch(bytes_of<Wide>(count)));
      wide_capacity_ = count;
    }
    Wide* wide = wide_memory_->template as<Wide>();
    widen(source, count, wide);
    return wide;
  }

  const KernelContext& context_;
  const Plan<Wide>& plan_;
  const Gather<Wide>& gather_;
  Stores stores_;
  LastLevel<Wide> last_;
  std::optional<RowsFirst<T, Wide>> rows_first_;
  int64_t together_ =
      RowPair<Wide>::kMost;  // rows of the result that are made from the same others
  std::vector<Ring> rings_;
  std::vector<std::optional<Scratch>> slabs_;  // of a tile, for each level that uses tiles
  std::optional<Scratch> row_, result_;        // for pairs
  std::optional<Scratch> wide_memory_;
  int64_t wide_capacity_ = 0;
};

// Resamples a whole tensor; the plan has at least one level.
template <class T, class Wide>
void resample(const KernelContext& context, const Plan<Wide>& plan, const Gather<Wide>& gather,
              const T* source, T* target) {
  const Level<Wide>& first = plan.levels.front();
  const Stores stores = stores_for(plan.bytes(sizeof(T)));
  if (context.reports()) {
    report(context, plan, [&](size_t depth) {
      if (depth + 1 == plan.levels.size()) {
        return Gather<Wide>::supports(plan.levels.back().in_volume) ? "gather" : "combine_slabs";
      }
      if (std::is_same_v<T, Wide> && plan.from_row_pairs(depth)) return "row_pairs";
      return plan.rows_first(depth) ? "rows_first" : "ring_of_slabs";
    });
  }
  for_each_run(context, plan, stores, [&] {
    return [&, worker = Resampler<T, Wide>(context, plan, gather, stores)](
               int64_t tensor, int64_t begin, int64_t end) mutable {
      worker.fill(0, begin, end, source + tensor * first.taps.input * first.in_volume,
                  target + (tensor * first.taps.output + begin) * first.out_volume);
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
