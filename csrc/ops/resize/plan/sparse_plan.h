// Gradients almost all of whose elements are zero, because the forward pass did not read them. The
// others are computed as if they were side by side, a small dense result, and then copied to their
// places among zeros (kernels/nearest_scatter.h).
#pragma once

#include <numeric>

#include "plan.h"

namespace myops::resize::MYOPS_ISA {

// Whether that takes less time than zeroing rows or slabs as TapTable::is_sparse() describes.
// `planes`: the kernel without it, which transposes whole tensors. (Measured. With cubic, others
// store -0 beside an element that has taps in one axis only. A single row, and slabs of a single
// axis, are made in place as fast.)
template <class Weight>
bool is_sparse(const Plan<Weight>& plan, const Settings& settings, bool planes) {
  const bool slabs = !GatherTable<Weight>::within_rows(plan.levels.back().in_volume);
  const bool in_place = plan.levels.size() == 1 && (plan.rows() == 1 || slabs);
  if (settings.mode != Mode::Linear || in_place) return false;
  double part = 1;  // of the result
  for (const Level<Weight>& level : plan.levels) {
    const TapTable<Weight>& taps = level.taps;
    part *= static_cast<double>(taps.filled.size()) / static_cast<double>(taps.output);
  }
  return part > 0 && part <= (planes || slabs ? 0.25 : 0.1) && kernel_enabled("resize.sparse");
}

// Removes the elements without taps from the plan of a gradient, and returns that of the places: a
// table with a tap of weight 1 for each of the others.
template <class Weight>
Plan<Weight> split_places(TableBudget& table_budget, Plan<Weight>& plan) {
  for (const Level<Weight>& level : plan.levels) {
    table_budget.take_tables(
        level.taps.input, level.taps.output,
        bytes_of<int64_t>(level.taps.output + 1) +
            static_cast<double>(level.taps.index.size()) * (2 * sizeof(int64_t) + sizeof(Weight)));
  }
  Plan<Weight> places = plan;
  int64_t volume = plan.levels.back().in_volume;  // of a slab of the elements side by side
  for (size_t depth = plan.levels.size(); depth-- > 0;) {
    Level<Weight>&level = plan.levels[depth], &copies = places.levels[depth];
    TapTable<Weight>&taps = level.taps, &place = copies.taps;
    const auto count = static_cast<int64_t>(taps.filled.size());
    if (depth + 1 < plan.levels.size()) volume *= level.blocks;
    for (int64_t k = 0, o = 0; o <= place.output; ++o) {
      place.first[o] = k;
      if (k < count && place.filled[k] == o) taps.first[k++] = taps.first[o];
    }
    taps.first[count] = taps.first[taps.output];
    taps.first.resize(count + 1);
    taps.output = count;
    taps.filled.clear();
    level.out_volume = volume;
    place.input = count;
    place.index.resize(count);
    std::iota(place.index.begin(), place.index.end(), 0);
    place.weight.assign(count, Weight(1));
    copies.in_volume = volume;
    volume *= count;
    measure(taps), measure(place);
  }
  return places;
}

}  // namespace myops::resize::MYOPS_ISA
