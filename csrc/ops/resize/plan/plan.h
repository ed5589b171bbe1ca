// The loop structure of one call: the resampled axes and the strides between them.
#pragma once

#include <algorithm>
#include <vector>

#include "../../../core/kernel_switch.h"
#include "strided_source.h"
#include "table_budget.h"

namespace myops::resize::MYOPS_ISA {

using namespace ::myops::MYOPS_ISA;

// A resampled axis, in memory order. The tensor that starts at this axis has taps.input slabs of
// in_volume elements each before resampling, and taps.output slabs of out_volume elements after.
template <class Weight>
struct Level {
  TapTable<Weight> taps;
  int64_t in_volume = 1;
  int64_t out_volume = 1;
  int64_t blocks = 1;  // tensors of the next level in one slab; on the last level its elements
  bool first = false;  // resampled before the next levels, not after them: see resamples_first()
};

template <class Weight>
struct Plan {
  int64_t outer = 1;  // tensors that start at the first resampled axis
  std::vector<Level<Weight>> levels;

  // Of the result, with elements of so many bytes.
  int64_t bytes(size_t element) const {
    const Level<Weight>& first = levels.front();
    return outer * first.taps.output * first.out_volume * static_cast<int64_t>(element);
  }
  int64_t source_bytes(size_t element) const {
    const Level<Weight>& first = levels.front();
    return outer * first.taps.input * first.in_volume * static_cast<int64_t>(element);
  }

  // Whether the result is stored without reading it into the caches first, because it is large.
  template <class T>
  bool streams(const T* target) const {
    return stores_for(bytes(sizeof(T))) == Stores::NonTemporal &&
           reinterpret_cast<uintptr_t>(target) % sizeof(T) == 0 &&
           kernel_enabled("resize.streaming");
  }

  // Whether each row of a level, linear in both axes, is made from two source rows in one pass:
  // intermediate rows are not stored, because recomputing them is faster than reading them back.
  bool from_row_pairs(size_t depth) const {
    const Level<Weight>& level = levels[depth];
    return depth + 2 == levels.size() && level.blocks == 1 && level.taps.width == 2 &&
           levels.back().taps.width == 2 &&
           (kPermutes<Weight> || !GatherTable<Weight>::within_rows(levels.back().in_volume));
  }

  // Whether a piece of the result is zeroed before it is computed: most of its slabs have no taps.
  bool zeroes_first() const {
    return levels.size() > 1 && !levels.front().first && levels.front().taps.is_sparse();
  }

  // The number of rows of the last level in a result that is not empty.
  int64_t rows() const {
    const Level<Weight>&first = levels.front(), &last = levels.back();
    return outer * first.taps.output * first.out_volume / (last.taps.output * last.out_volume);
  }

  // Whether the last level has a single row, before the other levels and after them.
  bool has_one_row() const {
    const Level<Weight>&first = levels.front(), &last = levels.back();
    return rows() == 1 &&
           outer * first.taps.input * first.in_volume == last.taps.input * last.in_volume;
  }

  // Slabs of the first level for one parallel piece, such that it takes some ten microseconds; more
  // where kernels make that many rows together. Longer pieces would leave threads without work,
  // shorter ones would repeat too many rows at the borders of pieces.
  int64_t grain() const {
    constexpr int64_t kElements = 1 << 15, kRows = 16;
    const Level<Weight>& first = levels.front();
    // (Rows that are combined first are then made together by "lanes", in the time of one.)
    const int64_t most_elements = levels.size() > 1 && first.first ? 1 << 19 : 1 << 17;
    const int64_t length = first.taps.output, count = outer * length;
    const int64_t input = std::max<int64_t>(first.taps.input, 1);
    // Rows of the source, of which the ones at the borders are made twice where there are fewer.
    const int64_t rows = length > input ? 2 * kRows * length / input : kRows;
    const int64_t together = levels.size() > 1 ? rows : kRows * length;
    const int64_t read = first.in_volume * input / length;
    const int64_t slab = std::max<int64_t>({read, first.out_volume, 1});
    const int64_t most =
        std::max<int64_t>({1, kElements / slab, std::min(together, most_elements / slab)});
    const int64_t even = even_grain(count, most);
    // Whole tensors, where several fit, or whole groups of rows.
    const int64_t unit = even > together && levels.size() == 1 ? together : length;
    return even > unit ? (even + unit - 1) / unit * unit : even;
  }

  // How many of `count` make all pieces alike, if one has at most `most`.
  static int64_t even_grain(int64_t count, int64_t most) {
    const int64_t pieces = std::max<int64_t>(1, (count + most - 1) / most);
    return (count + pieces - 1) / pieces;
  }
};

// The plan of the forward pass, or of its transpose. `kept`: of the forward pass, for a copy of
// what is read; takes the indices of each axis.
template <class Weight>
Plan<Weight> make_plan(TableBudget& table_budget, const Settings& settings, const Axes& axes,
                       bool channels_last, bool backward,
                       std::vector<KeptIndices>* kept = nullptr) {
  Plan<Weight> plan;
  int64_t in_volume = 1, out_volume = 1, blocks = 1;
  int64_t all = 1;  // in_volume of the source itself, which decides the order of the passes
  const std::vector<size_t> order = memory_order(axes.size(), channels_last);
  for (size_t i = order.size(); i-- > 0;) {
    const Axis& axis = axes[order[i]];
    if (is_identity(settings, axis)) {
      blocks *= axis.input;
      in_volume *= axis.input;
      out_volume *= axis.input;
      all *= axis.input;
      continue;
    }
    take_taps<Weight>(table_budget, settings, axis);
    TapTable<Weight> taps = make_tap_table<Weight>(settings, axis);
    if (backward) {
      take_transposed(table_budget, taps);
      taps = transposed_map(taps);
    }
    const int64_t input = taps.input, output = taps.output;
    const bool first =
        resamples_first(settings, backward, input, output, plan.levels.size(), all, out_volume);
    if (kept != nullptr) (*kept)[order[i]] = keep_read(taps);
    const int64_t copied = taps.input;
    plan.levels.push_back({std::move(taps), in_volume, out_volume, blocks, first});
    in_volume *= copied;
    all *= input;
    out_volume *= output;
    blocks = 1;
  }
  std::reverse(plan.levels.begin(), plan.levels.end());
  plan.outer = blocks;
  return plan;
}

// Says what resamples each level; kernel_of(depth) names it.
template <class Weight, class KernelOf>
void report(const KernelContext& context, const Plan<Weight>& plan, const KernelOf& kernel_of) {
  for (size_t depth = 0; depth < plan.levels.size(); ++depth) {
    const Level<Weight>& level = plan.levels[depth];
    context.report(kernel_of(depth), str("level ", depth + 1, " of ", plan.levels.size()),
                   str(level.taps.input, " -> ", level.taps.output, " slabs of ", level.in_volume,
                       " elements, at most ", level.taps.widest, " taps each"));
  }
}

// Calls run(tensor, begin, end) for the slabs [begin, end) of the level in each tensor.
template <class Weight, class Run>
void each_tensor(const Level<Weight>& level, int64_t begin, int64_t end, const Run& run) {
  const int64_t length = level.taps.output;
  while (begin < end) {
    const int64_t tensor = begin / length, at = begin - tensor * length;
    const int64_t count = std::min(length - at, end - begin);
    run(tensor, at, at + count);
    begin += count;
  }
}

// What the slabs [begin, end) of the first level of a plan read of the source.
template <class Weight, class T>
SourcePart<T> read_of(const KernelContext& context, const Plan<Weight>& plan,
                      const Source<T>& source, int64_t begin, int64_t end) {
  if (source.strided == nullptr) return SourcePart<T>(context, source, 0, 0);
  const Level<Weight>& level = plan.levels.front();
  const TapTable<Weight>& taps = level.taps;
  int64_t low = plan.outer * taps.input, high = 0;
  each_tensor(level, begin, end, [&](int64_t tensor, int64_t from, int64_t to) {
    const bool whole = from == 0 && to == taps.output;
    for (int64_t k = taps.first[from]; k < taps.first[to] && !whole; ++k) {
      low = std::min(low, tensor * taps.input + taps.index[k]);
      high = std::max(high, tensor * taps.input + taps.index[k] + 1);
    }
    if (!whole) return;
    low = std::min(low, tensor * taps.input);
    high = std::max(high, (tensor + 1) * taps.input);
  });
  return SourcePart<T>(context, source, low * level.in_volume, high * level.in_volume);
}

// Calls body(begin, end, source, target) for runs of slabs [begin, end) of the first level that lie
// in one tensor, in parallel. `source` is the tensor's, `target` begins with slab `begin`.
template <class Weight, class T, class Body>
void for_each_run(const KernelContext& context, const Plan<Weight>& plan, const Source<T>& source,
                  T* target, const Body& body) {
  const Level<Weight>& level = plan.levels.front();
  context.parallel_for(
      plan.outer * level.taps.output, plan.grain(), [&](int64_t first, int64_t last) {
        const SourcePart<T> part = read_of(context, plan, source, first, last);
        each_tensor(level, first, last, [&](int64_t tensor, int64_t begin, int64_t end) {
          body(begin, end, part.get() + tensor * level.taps.input * level.in_volume,
               target + (tensor * level.taps.output + begin) * level.out_volume);
        });
      });
}

}  // namespace myops::resize::MYOPS_ISA
