// Rows that are copied, nearest along the fastest axis; the third part of gather.h.
#pragma once

#include "gather.h"

namespace myops::resize::MYOPS_ISA {

// Copies whole blocks, row by row, because memory is fastest with one stream of stores. Returns
// where the blocks end.
template <class Wide>
template <GatherStrategy kStrategy, int kCycle>
MYOPS_NOINLINE int64_t Gather<Wide>::copy_rows(int64_t first, int64_t end,
                                               const Copied& rows) const {
  const int64_t step = table_.step(), count = rows.count, row_step = rows.step;
  const auto load_places = [index = table_.all_indices(), step](const Block& block) {
    return Places<Wide, 1, kStrategy>(index + block.index, step);
  };
  const BlockRun<kCycle, Wide, decltype(load_places)> blocks(table_, first, end, load_places);
  const IndexedRows<Wide> sources = rows.sources;
  Wide* target = rows.target;
  for (int64_t row = 0; row < count; ++row, target += row_step) {
    const Wide* source = sources[row];
    blocks.each([&](const auto& places, int64_t low, int64_t at) {
      V x[1];
      places.pick([&](int64_t i) { return load(source + low + i); }, x);
      store(target + at, x[0]);
    });
  }
  return blocks.stop();
}

}  // namespace myops::resize::MYOPS_ISA
