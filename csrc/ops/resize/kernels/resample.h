// Weighted resampling of any number of axes, one axis at a time, in bounded memory.
//
// The last two levels, rows and columns, are computed in strips: source rows are first resampled
// into a buffer and then combined or, if the axis of the rows shrinks, first combined and then
// resampled. A level before them combines slabs, which the next level computes from one index of
// the source each. The last few slabs are kept in a ring buffer, because neighbouring outputs share
// them. No level stores its full result. The order of the passes depends on lengths only.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "last_axis.h"
#include "planes.h"
#include "row_pairs.h"

namespace myops::resize::MYOPS_ISA {

// The working memory of one parallel piece.
template <class T, class Wide>
class Resampler {
 public:
  Resampler(const KernelContext& context, const Plan<Wide>& plan,
            const LastAxisTables<Wide>& tables, Stores stores)
      : context_(context),
        plan_(plan),
        tables_(tables),
        stores_(stores),
        last_(context, plan, tables) {
    // Several rows at once are several streams of stores, but plain stores to memory are fast for
    // one stream only.
    if (stores == Stores::Prefetch && plan.bytes(sizeof(T)) >= cached_bytes()) together_ = 1;
    const size_t levels = plan.levels.size();
    for (size_t depth = 0; depth + 1 < levels; ++depth) {
      const Level<Wide>& level = plan.levels[depth];
      if (depth + 2 < levels || level.blocks > 1) {
        make_ring(depth);
      } else if (uses_row_pairs()) {
        if (plan.rows_first(depth)) row_.emplace(context.scratch_array<Wide>(level.in_volume));
        if (stores == Stores::NonTemporal) {
          result_.emplace(context.scratch(bytes_of<Wide>(together_, level.out_volume)));
        }
      } else {
        make_strips(level);
      }
    }
  }

  Resampler(const Resampler&) = delete;

  // Writes the slabs [begin, end) of a level's result to `target`; those of the next tensor follow
  // those of one tensor, whose source begins at `source`.
  template <class Out>
  void fill(size_t depth, int64_t begin, int64_t end, const T* source, Out* target) {
    const Level<Wide>& level = plan_.levels[depth];
    const Stores stores = depth == 0 ? stores_ : Stores::Plain;
    if (depth + 1 == plan_.levels.size()) return fill_rows(begin, end, source, stores, target);
    if (!rings_.empty() && rings_[depth])
      return fill_from_ring(depth, begin, end, source, stores, target);
    if constexpr (std::is_same_v<T, Wide> && std::is_same_v<Out, Wide>) {
      if (uses_row_pairs()) {
        return each_tensor(level, begin, end, [&](int64_t tensor, int64_t from, int64_t to) {
          const RowPairScratch<Wide> memory{row_ ? row_->data() : nullptr,
                                            result_ ? result_->template as<Wide>() : nullptr};
          fill_row_pairs(plan_, tables_.gather ? &*tables_.gather : nullptr, memory, together_,
                         stores, from, to, source + tensor * level.taps.input * level.in_volume,
                         target + (tensor * level.taps.output + from - begin) * level.out_volume);
        });
      }
    }
    if (plan_.rows_first(depth)) return rows_first(level, begin, end, source, stores, target);
    columns_first(level, begin, end, source, stores, target);
  }

  // The name of what makes the slabs of a level.
  const char* kernel(size_t depth) const {
    const size_t last = plan_.levels.size() - 1;
    if (last > 0 && depth + 1 >= last && uses_row_pairs()) return "row_pairs";
    return depth == last ? last_.kernel() : "slab_sum";
  }

 private:
  // Slabs of a level that the next level has made.
  struct Ring {
    int64_t together;  // slabs that are made together; divides `places`
    int64_t places;
    ScratchArray<int64_t> owners;  // the index of the slab in each place; -1: none
    ScratchArray<Wide> memory;
    SlabSum<Wide> sum;
  };

  bool uses_row_pairs() const {
    const size_t depth = plan_.levels.size() - 2;
    return std::is_same_v<T, Wide> && plan_.from_row_pairs(depth) &&
           kernel_enabled("resize.row_pairs") &&
           (tables_.gather || !LastAxisTables<Wide>::within_rows(plan_.levels.back().in_volume)) &&
           !(plan_.rows_first(depth) && last_.reads_little());
  }

  // Calls run(tensor, begin, end) for the slabs [begin, end) of the level in each tensor.
  template <class Run>
  static void each_tensor(const Level<Wide>& level, int64_t begin, int64_t end, const Run& run) {
    const int64_t length = level.taps.output;
    while (begin < end) {
      const int64_t tensor = begin / length, at = begin - tensor * length;
      const int64_t count = std::min(length - at, end - begin);
      run(tensor, at, at + count);
      begin += count;
    }
  }

  void make_ring(size_t depth) {
    const Level<Wide>& level = plan_.levels[depth];
    rings_.resize(plan_.levels.size());
    constexpr int64_t kMost = 16, kElements = 4096;
    int64_t together = 1;
    // (Not where outputs skip some slabs, because those would be computed for nothing.)
    const bool reads_all = static_cast<int64_t>(level.taps.index.size()) >= level.taps.input &&
                           level.taps.output >= level.taps.input / 2;
    while (reads_all && together < kMost && 2 * together * level.out_volume <= kElements) {
      together *= 2;
    }
    int64_t places = 1;  // a power of two, so that finding a place needs no division
    while (places < level.taps.span + together - 1) places *= 2;
    rings_[depth].emplace(Ring{together,
                               places,
                               context_.scratch_array<int64_t>(places),
                               {context_.scratch(bytes_of<Wide>(places, level.out_volume)), 0},
                               SlabSum<Wide>(context_, level.taps)});
  }

  template <class Out>
  void fill_from_ring(size_t depth, int64_t begin, int64_t end, const T* source, Stores stores,
                      Out* target) {
    const Level<Wide>& level = plan_.levels[depth];
    const TapTable<Wide>& taps = level.taps;
    Ring& ring = *rings_[depth];
    each_tensor(level, begin, end, [&](int64_t tensor, int64_t from, int64_t to) {
      const T* at = source + tensor * taps.input * level.in_volume;
      std::fill_n(ring.owners.data(), ring.places, -1);
      const int64_t needed = taps.first[to] == 0 ? 0 : taps.index[taps.first[to] - 1];
      for (int64_t o = from; o < to; ++o, target += level.out_volume) {
        // The indices of one output fit the ring together, so they never displace each other.
        for (int64_t k = taps.first[o]; k < taps.first[o + 1]; ++k) {
          const int64_t index = taps.index[k], place = index & (ring.places - 1);
          if (ring.owners[place] == index) continue;
          // Those up to the next multiple of `together` that the outputs before `to` need.
          const int64_t stop = std::min(index | (ring.together - 1), needed);
          int64_t count = 0;
          do {
            ring.owners[place + count] = index + count;
            ++count;
          } while (index + count <= stop && ring.owners[place + count] != index + count);
          fill(depth + 1, 0, count * level.blocks * plan_.levels[depth + 1].taps.output,
               at + index * level.in_volume, ring.memory.data() + place * level.out_volume);
        }
        const auto slab = [&](int64_t index) {
          return ring.memory.data() + (index & (ring.places - 1)) * level.out_volume;
        };
        ring.sum.run(o, o + 1, slab, level.out_volume, stores, target);
      }
    });
  }

  // Rows of the last level.
  template <class Out>
  void fill_rows(int64_t begin, int64_t end, const T* source, Stores stores, Out* target) {
    const Level<Wide>& level = plan_.levels.back();
    const int64_t in = level.taps.input * level.in_volume;
    const int64_t out = level.taps.output * level.out_volume;
    constexpr int64_t kRows = 4 * LaneTable<Wide>::kRows;
    const T* rows[kRows];
    int64_t count = 0, size = 0;
    const auto flush = [&] {
      last_.rows(count, rows, stores, target, out);
      target += size;
      count = size = 0;
    };
    each_tensor(level, begin, end, [&](int64_t row, int64_t from, int64_t to) {
      if (from == 0 && to == level.taps.output) {
        rows[count++] = source + row * in;
        size += out;
        if (count == kRows) flush();
        return;
      }
      if (count > 0) flush();
      last_.part(from, to, source + row * in, stores, target);
      target += (to - from) * level.out_volume;
    });
    if (count > 0) flush();
  }

  // Memory for the strips of the last two levels.
  void make_strips(const Level<Wide>& level) {
    constexpr int64_t kBytes = 128 << 10;
    sum_.emplace(context_, level.taps);
    if (plan_.rows_first(plan_.levels.size() - 2)) {
      if (last_.reads_little()) return;
      strip_ =
          last_.together((level.in_volume + level.out_volume) * static_cast<int64_t>(sizeof(Wide)));
      rows_.emplace(context_.scratch(bytes_of<Wide>(strip_, level.in_volume)));
      if (stores_ == Stores::NonTemporal) {
        result_.emplace(context_.scratch(bytes_of<T>(strip_, level.out_volume)));
      }
    } else {
      const int64_t bytes = level.out_volume * static_cast<int64_t>(sizeof(Wide));
      const int64_t group = last_.together(bytes);
      const int64_t most =
          std::min(kBytes / std::max<int64_t>(bytes, 1), level.taps.input * plan_.outer);
      strip_ = std::max<int64_t>(1, most / group) * group + level.taps.span - 1;
      rows_.emplace(context_.scratch(bytes_of<Wide>(strip_, level.out_volume)));
    }
    sources_.emplace(context_.scratch_array<const T*>(strip_));
  }

  template <class Out>
  void rows_first(const Level<Wide>& level, int64_t begin, int64_t end, const T* source,
                  Stores stores, Out* target) {
    const TapTable<Wide>& taps = level.taps;
    const int64_t size = level.in_volume;
    const auto slabs_of = [&](int64_t tensor, int64_t from) {
      return [at = source + tensor * taps.input * size + from, size](int64_t index) {
        return at + index * size;
      };
    };
    if (last_.reads_little()) {
      return each_tensor(level, begin, end, [&](int64_t tensor, int64_t from, int64_t to) {
        const auto slab = slabs_of(tensor, 0);
        for (int64_t o = from; o < to; ++o, target += level.out_volume) {
          const int64_t first = taps.first[o];
          const auto value = [&](int64_t i) {
            return weighted<Wide>(
                taps.count(o), [&](int64_t k) { return taps.weight[first + k]; },
                [&](int64_t k) { return static_cast<Wide>(slab(taps.index[first + k])[i]); });
          };
          last_.scalar(0, last_.outputs(), value, target);
        }
      });
    }
    Wide* rows = rows_->template as<Wide>();
    const Wide* combined[LaneTable<Wide>::kRows];
    for (int64_t at = begin; at < end;) {
      const int64_t count = std::min(strip_, end - at);
      int64_t row = 0;
      each_tensor(level, at, at + count, [&](int64_t tensor, int64_t from, int64_t to) {
        for (int64_t o = from; o < to; ++o, ++row) {
          combined[row] = rows + row * size;
          for (const auto& [low, high] : last_.parts_read()) {
            sum_->run(o, o + 1, slabs_of(tensor, low), high - low, Stores::Plain,
                      rows + row * size + low);
          }
        }
      });
      if (stores == Stores::NonTemporal && std::is_same_v<Out, T>) {
        Out* result = result_->template as<Out>();
        last_.rows(count, combined, Stores::Plain, result, level.out_volume);
        stream_copy(result, count * level.out_volume, target);
      } else {
        last_.rows(count, combined, stores, target, level.out_volume);
      }
      at += count;
      target += count * level.out_volume;
    }
  }

  // A part of a tensor in a strip: the outputs [begin, end), from source rows that begin with
  // `low`, of which row 0 of the strip is number `first`.
  struct Part {
    int64_t tensor, begin, end, low, high;
  };

  // The outputs from `begin` on whose source rows fit so many.
  static Part part_of(const Level<Wide>& level, int64_t at, int64_t end, int64_t rows) {
    const TapTable<Wide>& taps = level.taps;
    const int64_t tensor = at / taps.output, begin = at - tensor * taps.output;
    Part part{tensor, begin, begin, taps.input, 0};
    for (int64_t o = begin; o < std::min(taps.output, begin + end - at); ++o) {
      int64_t low = part.low, high = part.high;
      for (int64_t k = taps.first[o]; k < taps.first[o + 1]; ++k) {
        low = std::min(low, taps.index[k]), high = std::max(high, taps.index[k] + 1);
      }
      if (high - low > rows) break;
      part.low = low, part.high = high, part.end = o + 1;
    }
    if (part.high < part.low) part.high = part.low;
    return part;
  }

  template <class Out>
  void columns_first(const Level<Wide>& level, int64_t begin, int64_t end, const T* source,
                     Stores stores, Out* target) {
    const int64_t size = level.out_volume;
    Wide* rows = rows_->template as<Wide>();
    const T** sources = sources_->data();
    Part before{-1, 0, 0, 0, 0};  // the last part of the previous strip
    int64_t rows_before = 0;      // of the strip, without that part
    while (begin < end) {
      // Rows that the previous strip has made already.
      // (A whole number of groups is new.)
      const bool follows = begin / level.taps.output == before.tensor;
      const int64_t most =
          follows ? strip_ : std::max(strip_ + 1 - level.taps.span, level.taps.span);
      Part part = part_of(level, begin, end, most);
      int64_t made = 0;
      if (part.tensor == before.tensor && part.low >= before.low && part.low < before.high) {
        made = std::min(before.high, part.high) - part.low;
        std::memmove(rows, rows + (rows_before + part.low - before.low) * size,
                     static_cast<size_t>(made * size) * sizeof(Wide));
      }
      int64_t count = 0, at = begin;
      parts_.clear();
      while (part.end > part.begin) {
        parts_.push_back(part);
        const T* tensor = source + part.tensor * level.taps.input * level.in_volume;
        for (int64_t row = part.low; row < part.high; ++row) {
          sources[count++] = tensor + row * level.in_volume;
        }
        at += part.end - part.begin;
        if (at == end || part.end < level.taps.output) break;
        part = part_of(level, at, end, most - count);
      }
      last_.rows(count - made, sources + made, Stores::Plain, rows + made * size, size);
      const Wide* first = rows;
      for (const Part& each : parts_) {
        const Wide* low = first - each.low * size;
        sum_->run(
            each.begin, each.end, [&](int64_t index) { return low + index * size; }, size, stores,
            target);
        target += (each.end - each.begin) * size;
        first += (each.high - each.low) * size;
      }
      before = parts_.back();
      rows_before = count - (before.high - before.low);
      begin = at;
    }
  }

  const KernelContext& context_;
  const Plan<Wide>& plan_;
  const LastAxisTables<Wide>& tables_;
  Stores stores_;
  LastAxis<Wide> last_;
  int64_t together_ =
      RowPair<Wide>::kMost;                 // rows of the result that are made from the same others
  std::vector<std::optional<Ring>> rings_;  // of each level that has one
  std::optional<SlabSum<Wide>> sum_;        // of the level before the last
  int64_t strip_ = 0;                       // rows of a strip
  std::optional<Scratch> rows_;             // of a strip
  std::optional<ScratchArray<const T*>> sources_;
  std::vector<Part> parts_;                // of a strip
  std::optional<ScratchArray<Wide>> row_;  // for pairs
  std::optional<Scratch> result_;          // rows that are then copied with non-temporal stores
};

// Resamples a whole tensor; the plan has at least one level.
template <class T, class Wide>
void resample(const KernelContext& context, const Plan<Wide>& plan,
              const LastAxisTables<Wide>& tables, const T* source, T* target) {
  const bool planes = Planes<T, Wide>::supports(plan) && kernel_enabled("resize.planes");
  if (context.reports()) {
    const Stores plain = Stores::Plain;
    report(context, plan,
           [&, worker = Resampler<T, Wide>(context, plan, tables, plain)](size_t depth) {
             return planes ? "planes" : worker.kernel(depth);
           });
  }
  if (planes) {
    return context.parallel_for(plan.outer, Planes<T, Wide>::grain(plan),
                                [&](int64_t begin, int64_t end) {
                                  Planes<T, Wide>(context, plan).run(begin, end, source, target);
                                });
  }
  const Level<Wide>& first = plan.levels.front();
  const Stores stores = plan.stores(sizeof(T));
  context.parallel_for(plan.outer * first.taps.output, plan.grain(),
                       [&](int64_t begin, int64_t end) {
                         Resampler<T, Wide>(context, plan, tables, stores)
                             .fill(0, begin, end, source, target + begin * first.out_volume);
                         if (stores == Stores::NonTemporal) stream_end();
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
