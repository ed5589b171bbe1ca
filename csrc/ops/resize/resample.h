// Weighted resampling of any number of axes, one axis at a time, in bounded memory.
//
// A level resamples its axis by combining slabs, each of which the next level has made from one
// index of the source. Neighbouring outputs share slabs, so each level keeps the last few in a
// ring. A picture needs a ring of 2 or 4 rows, a volume one of 2 pictures besides: no level ever
// stores its full result. The innermost level reads the source itself.
//
// Of the last two levels, rows and columns, the one that shrinks goes first: rows are combined
// before they are resampled where there are fewer of them afterwards. Lengths alone decide.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "pairs.h"
#include "plan.h"

namespace myops::resize::MYOPS_ISA {

// The working memory of one parallel piece.
template <class T, class Wide>
class Resampler {
 public:
  // `gather`: of the last level.
  Resampler(const KernelContext& context, const Plan<Wide>& plan, const Gather<Wide>& gather,
            Stores stores)
      : context_(context), plan_(plan), gather_(gather), stores_(stores) {
    // Several rows at once are several streams of stores: memory takes one of plain stores only.
    if (stores == Stores::Ahead && plan.bytes(sizeof(T)) > cached_bytes()) together_ = 1;
    rings_.resize(plan.levels.size() - 1);
    for (size_t i = 0; i < rings_.size(); ++i) {
      const Level<Wide>& level = plan.levels[i];
      Ring& ring = rings_[i];
      if (plan.rows_first(i) || plan.in_pairs(i)) {
        if (plan.rows_first(i)) {
          row_.emplace(context.scratch(sizeof(Wide) * static_cast<size_t>(level.in_volume)));
        }
        if (stores == Stores::PastCaches) {
          const int64_t rows = plan.in_pairs(i) ? together_ : 1;
          result_.emplace(
              context.scratch(sizeof(T) * static_cast<size_t>(rows * level.out_volume)));
        }
        if (std::is_same_v<T, Wide>) continue;  // rows are read where they are
      } else if (i + 2 == plan.levels.size() && level.blocks == 1 &&
                 Gather<Wide>::takes(stride())) {
        while (ring.together < kMostRows && 2 * ring.together * row_bytes(level) <= kRowsBytes) {
          ring.together *= 2;
        }
      }
      ring.places = 1;  // powers of two: finding a place must not cost a division
      while (ring.places < level.taps.span + ring.together - 1) ring.places *= 2;
      ring.owner.emplace(context.scratch(sizeof(int64_t) * static_cast<size_t>(ring.places)));
      ring.memory.emplace(
          context.scratch(sizeof(Wide) * static_cast<size_t>(ring.places * slab_size(i))));
    }
    for (size_t i = 0; i < plan.levels.size(); ++i) {
      const int64_t slabs = tile_size(i) * plan.levels[i].taps.widest;
      slabs_.emplace_back();
      if (slabs == 0 || (std::is_same_v<T, Wide> && plan.in_pairs(i))) continue;
      slabs_.back().emplace(context.scratch(sizeof(const Wide*) * static_cast<size_t>(slabs)));
    }
  }

  // Writes the slabs [begin, end) of a level's result to `target`.
  template <class Out>
  void fill(size_t depth, int64_t begin, int64_t end, const T* source, Out* target) {
    const Stores stores = depth == 0 ? stores_ : Stores::Plain;
    if (depth + 1 == plan_.levels.size()) return fill_last(begin, end, source, stores, target);
    const Level<Wide>& level = plan_.levels[depth];
    if constexpr (std::is_same_v<T, Wide> && std::is_same_v<Out, Wide>) {
      if (plan_.in_pairs(depth)) {
        const PairMemory<Wide> memory{row_ ? row_->template as<Wide>() : nullptr,
                                      result_ ? result_->template as<Wide>() : nullptr};
        return fill_pairs(plan_, gather_, memory, together_, stores, begin, end, source, target);
      }
    }
    if (rings_[depth].places > 0) std::fill_n(rings_[depth].owners(), rings_[depth].places, -1);
    for (int64_t o = begin; o < end;) {
      const Sums<Wide> sums = tile(depth, o, end, source);
      if (plan_.rows_first(depth)) {
        Wide* row = row_->template as<Wide>();
        combine(level.taps.width, sums, level.in_volume, Stores::Plain, row);
        resample_row(row, stores, rows_after(level, o, source), target);
      } else {
        combine(level.taps.width, sums, level.out_volume, stores, target);
      }
      o += sums.count;
      target += sums.count * level.out_volume;
    }
  }

 private:
  static constexpr int64_t kBytes = sizeof(T);
  // Rows that are resampled together, so that tables which do not stay in registers are loaded once
  // for all: as many as the first cache and a little of the second hold.
  static constexpr int64_t kMostRows = 8, kRowsBytes = 40 << 10;

  struct Ring {
    int64_t places = 0;
    int64_t together = 1;  // slabs that are made at once; divides `places`
    std::optional<Scratch> owner, memory;

    // The index whose slab each place holds; -1: none.
    int64_t* owners() const { return owner->template as<int64_t>(); }
  };

  int64_t stride() const { return plan_.levels.back().in_volume; }
  static int64_t row_bytes(const Level<Wide>& level) {
    return level.out_volume * static_cast<int64_t>(sizeof(Wide));
  }
  // Slabs of the result that are combined in one go. Rows that are combined before they are
  // resampled come one at a time.
  int64_t tile_size(size_t depth) const {
    constexpr int64_t kSlabs = 16, kTaps = 256;
    if (depth + 1 == plan_.levels.size() && Gather<Wide>::takes(stride())) return 0;
    if (plan_.rows_first(depth)) return 1;
    const int64_t widest = std::max<int64_t>(plan_.levels[depth].taps.widest, 1);
    return std::clamp<int64_t>(kTaps / widest, 1, kSlabs);
  }
  // Elements of a slab in a ring: of rows that are combined first, those of the source.
  int64_t slab_size(size_t depth) const {
    const Level<Wide>& level = plan_.levels[depth];
    return plan_.rows_first(depth) ? level.in_volume : level.out_volume;
  }

  // What the slabs from `begin` on are made of, as many of them as the ring has; what the first
  // one needs is made.
  Sums<Wide> tile(size_t depth, int64_t begin, int64_t end, const T* source) {
    const Level<Wide>& level = plan_.levels[depth];
    const Taps<Wide>& taps = level.taps;
    const Wide** slabs = slabs_[depth]->template as<const Wide*>();
    const int64_t first = taps.first[begin], most = std::min(end - begin, tile_size(depth));
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

  // The slab of one index. If the ring does not have it, it is made, or null comes back. The
  // indices of one output lie within the ring's size, so they never displace each other.
  const Wide* slab(size_t depth, int64_t index, int64_t end, bool make, const T* source) {
    const Level<Wide>& level = plan_.levels[depth];
    if constexpr (std::is_same_v<T, Wide>) {
      if (plan_.rows_first(depth)) return source + index * level.in_volume;
    }
    Ring& ring = rings_[depth];
    const int64_t place = index & (ring.places - 1), size = slab_size(depth);
    Wide* memory = ring.memory->template as<Wide>() + place * size;
    int64_t* owner = ring.owners() + place;
    if (*owner == index) return memory;
    if (!make) return nullptr;
    const T* at = source + index * level.in_volume;
    if (ring.together > 1) {
      // Those up to the next multiple of `together` that the outputs before `end` need.
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
    if (plan_.rows_first(depth)) {
      widen(at, level.in_volume, memory);
      return memory;
    }
    const Level<Wide>& next = plan_.levels[depth + 1];
    for (int64_t block = 0; block < level.blocks; ++block) {
      fill(depth + 1, 0, next.taps.output, at + block * next.taps.input * next.in_volume,
           memory + block * next.taps.output * next.out_volume);
    }
    return memory;
  }

  // The last level of several rows, for the ring of the level before.
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
                Rows<Wide, Wide>{rows, count, target, gather_.elements(), 0, {}});
  }

  // The rows that the output behind `o` is combined from, and that `o` itself is not.
  static Upcoming rows_after(const Level<Wide>& level, int64_t o, const T* source) {
    const Taps<Wide>& taps = level.taps;
    if (taps.count(o) == 0) return {};
    const int64_t rows = taps.input / taps.output, next = taps.index[taps.first[o + 1] - 1] + 1;
    return {source + next * level.in_volume, kBytes * rows * level.in_volume / level.out_volume};
  }

  // The last level of one row that has been combined.
  template <class Out>
  void resample_row(const Wide* row, Stores stores, const Upcoming& next, Out* target) {
    const Level<Wide>& last = plan_.levels.back();
    if constexpr (std::is_same_v<Out, Wide>) {
      if (stores == Stores::PastCaches) {
        Wide* result = result_->template as<Wide>();
        fill_from(0, last.taps.output, row, Stores::Plain, next, result);
        stream_copy(result, last.taps.output * last.out_volume, target);
        return;
      }
    }
    fill_from(0, last.taps.output, row, stores, next, target);
  }

  template <class Out>
  void fill_last(int64_t begin, int64_t end, const T* source, Stores stores, Out* target) {
    if constexpr (std::is_same_v<T, Wide>) {
      fill_from(begin, end, source, stores, {}, target);
    } else {
      const auto [low, high] = gather_.reads(begin * stride(), end * stride());
      fill_from(begin, end, widened(source + low, high - low) - low, stores, {}, target);
    }
  }

  const Wide* widened(const T* source, int64_t count) {
    if (count > wide_capacity_) {
      wide_memory_.emplace(context_.scratch(sizeof(Wide) * static_cast<size_t>(count)));
      wide_capacity_ = count;
    }
    Wide* wide = wide_memory_->template as<Wide>();
    widen(source, count, wide);
    return wide;
  }

  // Outputs [begin, end) of the last level from its first source element on.
  template <class Out>
  void fill_from(int64_t begin, int64_t end, const Wide* source, Stores stores,
                 const Upcoming& next, Out* target) {
    const Taps<Wide>& taps = plan_.levels.back().taps;
    const int64_t run = stride();
    if (Gather<Wide>::takes(run)) {
      const int64_t ahead = stores == Stores::Ahead ? kAhead<Out> : 0;
      return gather_.sum(begin * run, end * run,
                         Rows<Wide, Out>{&source, 1, target - begin * run, 0, ahead, next});
    }
    const Wide** slabs = slabs_.back()->template as<const Wide*>();
    const int64_t tile = tile_size(plan_.levels.size() - 1);
    for (int64_t o = begin; o < end; o += tile) {
      const int64_t count = std::min(tile, end - o), first = taps.first[o];
      for (int64_t k = first; k < taps.first[o + count]; ++k) {
        slabs[k - first] = source + taps.index[k] * run;
      }
      const Sums<Wide> sums{count, taps.first.data() + o, slabs, taps.weight.data() + first};
      combine(taps.width, sums, run, stores, target);
      target += count * run;
    }
  }

  const KernelContext& context_;
  const Plan<Wide>& plan_;
  const Gather<Wide>& gather_;
  Stores stores_;
  int64_t together_ = Pair<Wide>::kMost;  // rows of the result that are made from the same others
  std::vector<Ring> rings_;
  std::vector<std::optional<Scratch>> slabs_;  // of a tile, for each level that makes tiles
  std::optional<Scratch> row_, result_;        // for rows that are combined first
  std::optional<Scratch> wide_memory_;
  int64_t wide_capacity_ = 0;
};

// Resamples a whole tensor; the plan has at least one level.
template <class T, class Wide>
void resample(const KernelContext& context, const Plan<Wide>& plan, const Gather<Wide>& gather,
              const T* source, T* target) {
  const Level<Wide>& first = plan.levels.front();
  const Stores stores = stores_for(plan.bytes(sizeof(T)));
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
