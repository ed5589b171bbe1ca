// Weighted resampling of any number of axes, one axis at a time, in bounded memory.
//
// A level whose axis shrinks is resampled first (Level::first): its slabs are combined, and the
// next level reads the few that result. Otherwise a level combines slabs that the next level
// computes from one index of the source each; the last few slabs are kept in a ring buffer, because
// neighbouring outputs share them. The last two levels are computed in strips of rows (strips.h) or
// by "row_pairs". No level stores its full result.
#pragma once

#include <utility>
#include <vector>

#include "row_pairs.h"
#include "strips.h"
#include "whole_plan.h"

namespace myops::resize::MYOPS_ISA {

// The working memory of one parallel piece.
template <class T, class Wide>
class Resampler {
 public:
  Resampler(const KernelContext& context, const Plan<Wide>& plan,
            const LastAxisTables<Wide>& tables, bool streams)
      : context_(context), plan_(plan), tables_(tables), last_(context, plan, tables) {
    const size_t levels = plan.levels.size();
    for (size_t depth = 0; depth + 1 < levels; ++depth) {
      const Level<Wide>& level = plan.levels[depth];
      if (depth + 2 < levels || level.blocks > 1) {
        slabs_.resize(levels);
        level.first ? make_combined(depth) : make_ring(depth);
      } else if (uses_row_pairs()) {
        row_pairs_.emplace(context, plan, tables.gather ? &*tables.gather : nullptr, streams);
      } else {
        strips_.emplace(context, plan, last_, sizeof(T), streams);
      }
    }
  }

  Resampler(const Resampler&) = delete;

  // Writes the slabs [begin, end) of a level's result to `target`; those of the next tensor follow
  // those of one tensor, whose source begins at `source`. `lines`: as in SlabSum::run().
  template <class From, class Out>
  void fill(size_t depth, int64_t begin, int64_t end, const From* source, LineBuffer<Out>* lines,
            Out* target) {
    const Level<Wide>& level = plan_.levels[depth];
    if (depth + 1 == plan_.levels.size()) return fill_rows(begin, end, source, lines, target);
    if (!slabs_.empty() && slabs_[depth]) {
      return level.first ? fill_combined(depth, begin, end, source, lines, target)
                         : fill_from_ring(depth, begin, end, source, lines, target);
    }
    if constexpr (std::is_same_v<T, Wide> && std::is_same_v<Out, Wide>) {
      if (row_pairs_) {
        return each_tensor(level, begin, end, [&](int64_t tensor, int64_t from, int64_t to) {
          row_pairs_->fill(from, to, source + tensor * level.taps.input * level.in_volume,
                           lines != nullptr, target);
          target += (to - from) * level.out_volume;
        });
      }
    }
    strips_->fill(begin, end, source, lines, target);
  }

  // The name of what makes the slabs of a level.
  const char* kernel(size_t depth) const {
    const size_t last = plan_.levels.size() - 1;
    if (last > 0 && depth + 1 >= last && row_pairs_) return "row_pairs";
    return depth == last ? last_.kernel() : "slab_sum";
  }

 private:
  // Slabs of a level between its own pass and that of the next level.
  struct Slabs {
    int64_t together;  // slabs that are made together; in a ring a divisor of `places`
    int64_t places;
    ScratchArray<Wide> memory;
    SlabSum<Wide> sum;
    // In a ring: the index of the slab in each place; -1: none.
    std::optional<ScratchArray<int64_t>> owners;
  };

  // Whether "row_pairs" computes the last two levels. Where it does not, strips take less time,
  // down to a third; measured. (Where columns go first, a row is summed for each pair that it is
  // in, so only where loops do it.)
  bool uses_row_pairs() const {
    if (plan_.levels.size() < 2 || !std::is_same_v<T, Wide>) return false;
    const size_t depth = plan_.levels.size() - 2;
    if (!plan_.from_row_pairs(depth) || !kernel_enabled("resize.row_pairs")) return false;
    const bool first = plan_.levels[depth].first;
    const Level<Wide>& columns = plan_.levels.back();
    if (first && last_.reads_little()) return false;
    const bool grows = columns.taps.output > columns.taps.input;
    if (!tables_.gather) return 2 * columns.in_volume >= (first ? 12 : 3) * kLanes<Wide>;
    const auto fits = [&](int64_t cache) {
      return plan_.bytes(sizeof(T)) + plan_.source_bytes(sizeof(T)) < cache;
    };
    if (kLanes<Wide> < 8) return false;
    if (first) return !fits(10 << 20);
    // Strips resample columns once for each source row; this once for each row of the result.
    const TapTable<Wide>& rows = plan_.levels[depth].taps;
    const bool often = 9 * rows.output > 20 * rows.input;
    if (often && columns.taps.output * columns.out_volume > longest_in_batch<Wide>(false)) {
      return false;
    }
    const bool cached = fits(2 << 20);
    const bool single = columns.in_volume == 1 && sizeof(Wide) == sizeof(float);
    return (grows || (cached && single)) && tables_.gather->table().is_made_by_loops();
  }

  // As many slabs as are made together, each of `size` elements: small ones share an inner pass.
  static int64_t group_of(int64_t size) {
    constexpr int64_t kMost = 16, kElements = 4096;
    int64_t together = 1;
    while (together < kMost && 2 * together * size <= kElements) together *= 2;
    return together;
  }

  void make_combined(size_t depth) {
    const Level<Wide>& level = plan_.levels[depth];
    const int64_t places = std::min(group_of(level.in_volume), level.taps.output);
    slabs_[depth].emplace(Slabs{places,
                                places,
                                {context_.scratch(bytes_of<Wide>(places, level.in_volume)), 0},
                                SlabSum<Wide>(context_, level.taps),
                                {}});
  }

  template <class From, class Out>
  void fill_combined(size_t depth, int64_t begin, int64_t end, const From* source,
                     LineBuffer<Out>* lines, Out* target) {
    const Level<Wide>& level = plan_.levels[depth];
    const int64_t size = level.in_volume;
    Slabs& slabs = *slabs_[depth];
    each_tensor(level, begin, end, [&](int64_t tensor, int64_t from, int64_t to) {
      const From* at = source + tensor * level.taps.input * size;
      for (int64_t o = from; o < to; o += slabs.places) {
        const int64_t count = std::min(slabs.places, to - o);
        slabs.sum.run(o, o + count, SlabPlaces<From>{at, size, at + level.taps.input * size}, size,
                      slabs.memory.data());
        fill(depth + 1, 0, count * level.blocks * plan_.levels[depth + 1].taps.output,
             static_cast<const Wide*>(slabs.memory.data()), lines, target);
        target += count * level.out_volume;
      }
    });
  }

  void make_ring(size_t depth) {
    const Level<Wide>& level = plan_.levels[depth];
    // (One by one where outputs skip some slabs, because those would be computed for nothing.)
    const bool reads_all = static_cast<int64_t>(level.taps.index.size()) >= level.taps.input &&
                           level.taps.output >= level.taps.input / 2;
    const int64_t together = reads_all ? group_of(level.out_volume) : 1;
    int64_t places = 1;  // a power of two, so that finding a place needs no division
    while (places < level.taps.span + together - 1) places *= 2;
    slabs_[depth].emplace(
        Slabs{together,
              places,
              {context_.scratch(bytes_of<Wide>(places, level.out_volume)), 0},
              SlabSum<Wide>(context_, level.taps, depth == 0 && plan_.zeroes_first()),
              context_.scratch_array<int64_t>(places)});
  }

  template <class From, class Out>
  void fill_from_ring(size_t depth, int64_t begin, int64_t end, const From* source,
                      LineBuffer<Out>* lines, Out* target) {
    const Level<Wide>& level = plan_.levels[depth];
    const TapTable<Wide>& taps = level.taps;
    Slabs& ring = *slabs_[depth];
    int64_t* owners = ring.owners->data();
    Wide* memory = ring.memory.data();
    LineBuffer<Wide>* const no_lines = nullptr;
    each_tensor(level, begin, end, [&](int64_t tensor, int64_t from, int64_t to) {
      const From* at = source + tensor * taps.input * level.in_volume;
      const int64_t size = level.out_volume;
      const SlabPlaces<Wide> places{memory, size, memory + ring.places * size, ring.places - 1};
      std::fill_n(owners, ring.places, -1);
      const int64_t needed = taps.first[to] == 0 ? 0 : taps.index[taps.first[to] - 1];
      for (int64_t o = from, next = from; o < to; o = next) {
        do {
          ++next;  // with the outputs without taps that follow
        } while (next < to && taps.count(next) == 0);
        // The indices of one output fit the ring together, so they never displace each other.
        for (int64_t k = taps.first[o]; k < taps.first[o + 1]; ++k) {
          const int64_t index = taps.index[k], place = index & (ring.places - 1);
          if (owners[place] == index) continue;
          // Those up to the next multiple of `together` that the outputs before `to` need.
          const int64_t stop = std::min(index | (ring.together - 1), needed);
          int64_t count = 0;
          do {
            owners[place + count] = index + count;
            ++count;
          } while (index + count <= stop && owners[place + count] != index + count);
          fill(depth + 1, 0, count * level.blocks * plan_.levels[depth + 1].taps.output,
               at + index * level.in_volume, no_lines, memory + place * size);
        }
        ring.sum.run(o, next, places, size, target, lines);
        target += (next - o) * size;
      }
    });
  }

  // Rows of the last level.
  template <class From, class Out>
  void fill_rows(int64_t begin, int64_t end, const From* source, LineBuffer<Out>* lines,
                 Out* target) {
    const Level<Wide>& level = plan_.levels.back();
    const int64_t in = level.taps.input * level.in_volume;
    const int64_t out = level.taps.output * level.out_volume;
    constexpr int64_t kRows = 4 * LaneTable<Wide>::kRows;
    const From* rows[kRows];
    int64_t count = 0, size = 0;
    const auto flush = [&] {
      last_.rows(count, rows, target, out, lines);
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
      last_.part(from, to, source + row * in, target, lines);
      target += (to - from) * level.out_volume;
    });
    if (count > 0) flush();
  }

  const KernelContext& context_;
  const Plan<Wide>& plan_;
  const LastAxisTables<Wide>& tables_;
  LastAxis<Wide> last_;
  std::vector<std::optional<Slabs>> slabs_;  // of each level that has them
  std::optional<Strips<Wide>> strips_;       // of the last two levels, or:
  std::optional<RowPairs<Wide>> row_pairs_;
};

// Resamples a whole tensor; the plan has at least one level.
template <class T, class Wide>
void resample(const KernelContext& context, const Plan<Wide>& plan, WholePlan whole,
              const LastAxisTables<Wide>& tables, const Source<T>& source, T* target) {
  if (context.reports()) {
    const char* name = name_of(whole);
    if (name != nullptr) {
      report(context, plan, [&](size_t) { return name; });
    } else {
      const Resampler<T, Wide> worker(context, plan, tables, false);
      report(context, plan, [&](size_t depth) { return worker.kernel(depth); });
    }
  }
  const Level<Wide>& first = plan.levels.front();
  const auto each_run = [&](const auto& worker) {
    for_each_run(context, plan, source, target, [&](auto... slabs) { worker.run(slabs...); });
  };
  if (whole == WholePlan::Small) {
    return context.parallel_for(
        1, 1, [&](int64_t, int64_t) { Small<T, Wide>(context, plan).run(source.memory, target); });
  }
  if (whole == WholePlan::OneColumn) return each_run(OneColumn<T, Wide>(context, plan));
  if constexpr (FewPixels<T, Wide>::kSupported) {
    if (whole == WholePlan::FewPixels) {
      const PixelPairs<Wide>* pairs = tables.pairs ? &*tables.pairs : nullptr;
      return each_run(FewPixels<T, Wide>(plan, pairs, source.memory));
    }
  }
  if (whole == WholePlan::Planes) {
    return context.parallel_for(
        plan.outer, Planes<T, Wide>::grain(plan), [&](int64_t begin, int64_t end) {
          Planes<T, Wide>(context, plan).run(begin, end, source.memory, target);
        });
  }
  const bool streams = plan.streams(target);
  context.parallel_for(plan.outer * first.taps.output, plan.grain(),
                       [&](int64_t begin, int64_t end) {
                         if (plan.zeroes_first()) {
                           std::memset(static_cast<void*>(target + begin * first.out_volume), 0,
                                       bytes_of<T>((end - begin) * first.out_volume));
                         }
                         const SourcePart<T> part = read_of(context, plan, source, begin, end);
                         LineBuffer<T> lines;
                         Resampler<T, Wide>(context, plan, tables, streams)
                             .fill(0, begin, end, part.get(), streams ? &lines : nullptr,
                                   target + begin * first.out_volume);
                         if (streams) lines.finish(), stream_end();
                       });
}

}  // namespace myops::resize::MYOPS_ISA
