// Rows of the result that are each made from two source rows, two taps in both directions; and the
// loops for batches of short ones.
//
// One block of all rows of a batch is computed before the next block: its tables are loaded once,
// and where columns go first, the sum along a source row is used for all rows of the result that
// need it. Neither reads nor writes are in memory order, so each step prefetches memory for the
// next batch: without it, batches from memory take twice as long as single rows.
#pragma once

#include "../plan/plan.h"
#include "gather.h"

namespace myops::resize::MYOPS_ISA {

template <class Wide>
struct RowBatch {
  const Wide* source;    // row 0
  int64_t size;          // of a source row
  const int64_t* index;  // of the two source rows, for each row of the result
  const Wide* weights;   // the same
  int64_t count;         // of rows of the result
  bool non_temporal;     // see Plan::streams()
  Wide* target;          // the first row; the others follow

  MYOPS_INLINE const Wide* row(int64_t k) const { return source + index[k] * size; }
};

// The most elements of a row of the result in a batch.
template <class Wide>
constexpr int64_t longest_in_batch(bool rows_first) {
  return rows_first ? 1024 / static_cast<int64_t>(sizeof(Wide))
                    : std::max<int64_t>(16 * kLanes<Wide>, 128);
}

// How many of `rows` rows of the result, of so many elements, form a batch; 0 if separate rows are
// as fast.
template <class Wide>
int64_t row_batch_size(bool rows_first, const int64_t* index, int64_t rows, int64_t elements) {
  constexpr int64_t kFew = 4, kSize = sizeof(Wide);
  if (elements > longest_in_batch<Wide>(rows_first)) return 0;
  // The L1 cache has space for the next batch, too. (Where rows go first, more are read than
  // written.)
  const int64_t bytes = rows_first ? 4 << 10 : 8 << 10;
  const int64_t most = std::min(rows, bytes / (elements * kSize));
  int64_t count = 0;
  for (; count < most; ++count, index += 2) {
    if (count > 0) {
      if (index[0] < index[-2]) break;  // as with a roi that ends before it starts
      // What lies between rows that are read would be prefetched for nothing.
      if (index[0] > index[rows_first ? -1 : -2] + 1) break;
    }
    if (!rows_first && index[1] != index[0] + 1) break;
  }
  return count < kFew ? 0 : count;
}

// Makes the whole blocks of one strategy from `first` on; returns their end. kRowsFirst as in
// run_pair().
template <GatherStrategy kStrategy, bool kRowsFirst, class Wide>
MYOPS_NOINLINE int64_t run_batch(const GatherTable<Wide>& table, int64_t first,
                                 const RowBatch<Wide>& given) {
  using V = Vector<Wide>;
  constexpr int64_t L = kLanes<Wide>;
  const RowBatch<Wide> batch = given;
  const int64_t size = table.elements();
  const int64_t rows_read = batch.index[2 * batch.count - 1] - batch.index[0] + 1;
  // What the next batch reads, and its bytes for each element of a row of the result; of a range of
  // which little is used, not all.
  const auto* next = reinterpret_cast<const char*>(batch.row(0) + rows_read * batch.size);
  const int64_t next_bytes = rows_read * batch.size * static_cast<int64_t>(sizeof(Wide)) / size;
  const int64_t step_bytes = std::min<int64_t>(L * next_bytes, 64 << 10);
  return for_sums<2, kStrategy>(
      table, first, size, [&](const auto& block, int64_t low, int64_t at) MYOPS_INLINED {
        const Wide* from = opaque(batch.row(0) + low);
        Wide* to = opaque(batch.target + at);
        const Wide* written_next = batch.target + (size + at) * batch.count;
        for (int64_t i = 0; i < step_bytes; i += 64) __builtin_prefetch(next + at * next_bytes + i);
        const auto sum_along = [&](const Wide* row) MYOPS_INLINED {
          return block.of([&](int64_t i) MYOPS_INLINED { return load(row + i); });
        };
        V sum_a{}, sum_b{};
        if constexpr (!kRowsFirst) {
          sum_a = sum_along(from), from += batch.size, sum_b = sum_along(from);
        }
        for (int64_t row = 0; row < batch.count; ++row, to += size, written_next += L) {
          const int64_t* index = batch.index + 2 * row;
          const V weight_a = broadcast(batch.weights[2 * row]);
          const V weight_b = broadcast(batch.weights[2 * row + 1]);
          V total;
          if constexpr (kRowsFirst) {
            const Wide* a = from + (index[0] - batch.index[0]) * batch.size;
            const Wide* b = from + (index[1] - batch.index[0]) * batch.size;
            total = block.of([&](int64_t i) MYOPS_INLINED {
              return fma(weight_b, load(b + i), weight_a * load(a + i));
            });
          } else {
            if (row > 0 && index[0] != index[-2]) {
              sum_a = sum_b;
              from += batch.size;
              sum_b = sum_along(from);
            }
            total = fma(weight_b, sum_b, weight_a * sum_a);
          }
          __builtin_prefetch(written_next, 1);
          store(to, total);
        }
      });
}

}  // namespace myops::resize::MYOPS_ISA
