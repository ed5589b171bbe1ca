// A row of the result from two source rows, two taps in both directions, in one pass.
#pragma once

#include "gather.h"

namespace myops::resize::MYOPS_ISA {

template <class Wide>
struct Pair {
  const Wide* rows[2];
  Wide weights[2];
  int64_t next;  // from each row to one that is read later, 0: not known
};

// Whole blocks on one road; returns their end.
template <GatherRoad kRoad, bool kRowsFirst, class Wide>
int64_t run_pair(const GatherTable<Wide>& table, int64_t first, const Pair<Wide>& pair,
                 int64_t ahead, Wide* target) {
  constexpr int64_t L = kLanes<Wide>;
  using V = Vector<Wide>;
  const int64_t step = table.step(), end = table.elements(), next = pair.next;
  const Wide *a = pair.rows[0], *b = pair.rows[1];
  const V weight_a = broadcast(pair.weights[0]), weight_b = broadcast(pair.weights[1]);
  const auto* block = table.block(first);
  const int32_t* index = table.all_indices();
  const Wide* weight = table.all_weights();
  for (; first + L <= end && block->road == kRoad; first += L, ++block) {
    const Places<Wide, 2, kRoad> places(index + block->index, step);
    const V w0 = load(weight + block->weight), w1 = load(weight + block->weight + L);
    const auto columns = [&](const auto& value) {  // value(i): the vector i elements from `low`
      V x[2];
      places.pick(value, x);
      return fma(w1, x[1], w0 * x[0]);
    };
    const Wide *from_a = a + block->low, *from_b = b + block->low;
    if (ahead > 0) __builtin_prefetch(target + first + ahead, 1);
    V total;
    if constexpr (kRowsFirst) {
      if (next > 0) {
        for (int k = 0; k < (kRoad == GatherRoad::Far ? 2 : 1); ++k) {
          __builtin_prefetch(from_a + next + k * L);
          __builtin_prefetch(from_b + next + k * L);
        }
      }
      total = columns(
          [&](int64_t i) { return fma(weight_b, load(from_b + i), weight_a * load(from_a + i)); });
    } else {
      total = weight_a * columns([&](int64_t i) { return load(from_a + i); });
      total = fma(weight_b, columns([&](int64_t i) { return load(from_b + i); }), total);
    }
    store(target + first, total);
  }
  return first;
}

// `target`: the row. Rows first: sum(weights[0] * rows[0] + weights[1] * rows[1]), where `room`
// takes parts of the row inside; else weights[0] * sum(rows[0]) + weights[1] * sum(rows[1]).
template <bool kRowsFirst, class Wide>
void sum_pair(const Gather<Wide>& gather, const Pair<Wide>& pair, Wide* room, int64_t ahead,
              Wide* target) {
  constexpr int64_t L = kLanes<Wide>;
  const GatherTable<Wide>& table = gather.table();
  for (int64_t first = 0; first < table.elements();) {
    const auto& block = *table.block(first);
    const int64_t count = std::min(L, table.elements() - first);
    if constexpr (kPermutes<Wide>) {
      const auto run = [&](auto road) {
        if (block.road != road) return;
        first = run_pair<road, kRowsFirst>(table, first, pair, ahead, target);
      };
      if (count == L && block.road <= GatherRoad::Far) {
        run(std::integral_constant<GatherRoad, GatherRoad::Within>());
        run(std::integral_constant<GatherRoad, GatherRoad::Near>());
        run(std::integral_constant<GatherRoad, GatherRoad::Far>());
        continue;
      }
    }
    Wide part[L];
    if constexpr (kRowsFirst) {
      const Wide* rows[2] = {pair.rows[0] + block.low, pair.rows[1] + block.low};
      combine_row<2>(rows, pair.weights, 2, block.high - block.low, Write::Scratch,
                     room + block.low);
      store(part, gather.template block_of<2>(block, first, room));
    } else {
      const auto a = gather.template block_of<2>(block, first, pair.rows[0]);
      const auto b = gather.template block_of<2>(block, first, pair.rows[1]);
      store(part, fma(broadcast(pair.weights[1]), b, broadcast(pair.weights[0]) * a));
    }
    std::copy(part, part + count, target + first);
    first += L;
  }
}

}  // namespace myops::resize::MYOPS_ISA
