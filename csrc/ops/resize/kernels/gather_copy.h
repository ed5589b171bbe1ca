// Rows that are copied, nearest along the fastest axis; the third part of gather.h.
#pragma once

#include "gather.h"

namespace myops::resize::MYOPS_ISA {

// Copies whole blocks, row by row, because memory is fastest with one stream of stores. Returns
// where the blocks end.
template <class Wide>
template <GatherStrategy kStrategy, int kCycle>
int64_t Gather<Wide>::copy_rows(int64_t first, int64_t end, const Copied& rows) const {
  if (rows.next.bytes > 0) {
    const auto put = [&](Wide* to, int64_t at, const V& values) {
      rows.next.prefetch(at, L);
      rows.put(to, values);
    };
    return copy_rows<kStrategy, kCycle, false>(first, end, rows, put);
  }
  if (rows.non_temporal) {
    const auto put = [](Wide* to, int64_t, const V& values) { stream(to, values); };
    return copy_rows<kStrategy, kCycle, false>(first, end, rows, put);
  }
  const auto put = [distance = rows.prefetch_distance](Wide* to, int64_t, const V& values) {
    if constexpr (kPrefetchCopies) __builtin_prefetch(to + distance, 1);
    store(to, values);
  };
  return copy_rows<kStrategy, kCycle, kPrefetchCopies>(first, end, rows, put);
}

template <class Wide>
template <GatherStrategy kStrategy, int kCycle, bool kAsks, class Put>
MYOPS_NOINLINE int64_t Gather<Wide>::copy_rows(int64_t first, int64_t end, const Copied& rows,
                                               Put put) const {
  const int64_t step = table_.step(), count = rows.count, row_step = rows.step;
  const auto load_places = [index = table_.all_indices(), step](const Block& block) {
    return Places<Wide, 1, kStrategy>(index + block.index, step);
  };
  const BlockRun<kCycle, Wide, decltype(load_places)> blocks(table_, first, end, load_places);
  const IndexedRows<Wide> sources = rows.sources;
  Wide* target = rows.target;
  if constexpr (kStrategy == Strategy::OneLoad && kCycle == 2) {
    const auto rows_of = [&](auto vectors, auto ask) {
      const auto [even, odd] = blocks.tables();
      const int64_t low = blocks.low();
      target += first;
      for (int64_t row = 0; row < count; ++row, target += row_step) {
        const Wide* from = opaque(sources[row] + low);
        Wide* to = opaque(target);
        for (int64_t i = 0; i < vectors; ++i, from += L, to += 2 * L) {
          V all = load(from), x[2];
          even.pick([&](int64_t) { return all; }, x);
          odd.pick([&](int64_t) { return all; }, x + 1);
          ask(to), ask(to + L);
          put(to, first + 2 * i * L, x[0]);
          put(to + L, first + (2 * i + 1) * L, x[1]);
        }
      }
      return blocks.stop();
    };
    // Typical lengths of feature maps. In a loop of four or eight steps, the loop's end takes a
    // tenth of the time, and prefetching each line three times pays.
    const int64_t doubled = blocks.doubled();
    const auto again = [](const Wide* to) {
      if constexpr (kAsks) {
        __builtin_prefetch(to + kPrefetchDistance<Wide> / 2, 1);
        __builtin_prefetch(to + kPrefetchDistance<Wide> * 2, 1);
      }
    };
    if (doubled > 0 && !kernel_enabled("resize.copy_doubled"))
      return rows_of(doubled, [](const Wide*) {});
    if (doubled == 4) return rows_of(std::integral_constant<int, 4>(), again);
    if (doubled == 8) return rows_of(std::integral_constant<int, 8>(), again);
    if (doubled > 0) return rows_of(doubled, [](const Wide*) {});
  }
  for (int64_t row = 0; row < count; ++row, target += row_step) {
    const Wide* source = sources[row];
    blocks.each([&](const auto& places, int64_t low, int64_t at) {
      V x[1];
      places.pick([&](int64_t i) { return load(source + low + i); }, x);
      put(target + at, at, x[0]);
    });
  }
  return blocks.stop();
}

}  // namespace myops::resize::MYOPS_ISA
