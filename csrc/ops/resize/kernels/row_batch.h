// Batches of short rows of the result, each row made from two neighbouring rows of the source with
// two taps in both directions. The results are bit-equal to those of row_pairs.h.
//
// One block of all rows is computed before the next block: its tables are loaded once, and the sum
// along a source row is used for all rows of the result that need it (64 channels by 2: 88 us
// instead of 112). Neither reads nor writes are in memory order, so each step prefetches memory for
// the next batch.
#pragma once

#include "../plan/plan.h"
#include "gather.h"

namespace myops::resize::MYOPS_ISA {

// Memory that will be used soon. A pass that works within the caches uses no memory bandwidth, so
// it prefetches a part of this range at each step.
struct PrefetchRange {
  const void* begin = nullptr;
  int64_t bytes = 0;  // for each element of a row

  // For the elements [first, first + count) of the row.
  MYOPS_INLINE void prefetch(int64_t first, int64_t count) const {
    constexpr int64_t kMost = 64 << 10;  // limits steps over ranges of which little is used
    const char* at = static_cast<const char*>(begin) + first * bytes;
    const int64_t end = std::min(count * bytes, kMost);
    for (int64_t i = 0; i < end; i += 64) __builtin_prefetch(at + i);
  }
};

template <class Wide>
struct RowBatch {
  const Wide* source;    // the first row
  int64_t size;          // of a source row
  const int64_t* index;  // of the two source rows, for each row of the result
  const Wide* weights;   // the same
  int64_t count;         // of rows of the result
  Wide* target;
};

// Whether rows of so many elements are made in batches. Longer ones are faster one by one.
template <class Wide>
bool makes_row_batches(int64_t row) {
  return kPermutes<Wide> && kernel_enabled("resize.row_batch") && row <= 16 * kLanes<Wide>;
}

// How many of `rows` rows of the result form a batch; 0 if there are so few that separate rows are
// as fast.
inline int64_t row_batch_size(const int64_t* index, int64_t rows) {
  constexpr int64_t kFew = 4;
  int64_t count = 0;
  for (; count < rows; ++count, index += 2) {
    if (index[1] != index[0] + 1 || (count > 0 && index[0] > index[-2] + 1)) break;
  }
  return count < kFew ? 0 : count;
}

// Makes the whole blocks of one strategy from `first` on; returns their end.
template <GatherStrategy kStrategy, class Wide>
MYOPS_NOINLINE int64_t run_row_batch(const GatherTable<Wide>& table, int64_t first,
                                     const RowBatch<Wide>& given) {
  using V = Vector<Wide>;
  constexpr int64_t L = kLanes<Wide>;
  const RowBatch<Wide> batch = given;
  const int64_t size = table.elements();
  const int64_t rows_read = batch.index[2 * batch.count - 1] - batch.index[0] + 1;
  const PrefetchRange next{batch.source + rows_read * batch.size,
                           rows_read * batch.size * static_cast<int64_t>(sizeof(Wide)) / size};
  return for_sums<2, kStrategy>(
      table, first, size, [&](const auto& block, int64_t low, int64_t at) MYOPS_INLINED {
        const Wide* from = opaque(batch.source + low);
        Wide* to = opaque(batch.target + at);
        const Wide* written_next = batch.target + (size + at) * batch.count;
        next.prefetch(at, L);
        const auto sum = [&]() MYOPS_INLINED {
          return block.of([&](int64_t i) MYOPS_INLINED { return load(from + i); });
        };
        V sum_a = sum();
        from += batch.size;
        V sum_b = sum();
        for (int64_t row = 0; row < batch.count; ++row, to += size, written_next += L) {
          if (row > 0 && batch.index[2 * row] != batch.index[2 * row - 2]) {
            sum_a = sum_b;
            from += batch.size;
            sum_b = sum();
          }
          __builtin_prefetch(written_next, 1);
          store(to, fma(broadcast(batch.weights[2 * row + 1]), sum_b,
                        broadcast(batch.weights[2 * row]) * sum_a));
        }
      });
}

template <class Wide>
void sum_row_batch(const Gather<Wide>& gather, const RowBatch<Wide>& batch) {
  constexpr int64_t L = kLanes<Wide>;
  const GatherTable<Wide>& table = gather.table();
  for (int64_t first = 0; first < table.elements();) {
    const auto& block = *table.block(first);
    const int64_t count = std::min(L, table.elements() - first);
    if constexpr (kPermutes<Wide>) {
      if (count == L && block.strategy <= GatherStrategy::ThreeLoadsPerTap) {
        first = with_strategy(
            block, [&](auto strategy) { return run_row_batch<strategy>(table, first, batch); });
        continue;
      }
    }
    for (int64_t row = 0; row < batch.count; ++row) {
      const Wide* from = batch.source + (batch.index[2 * row] - batch.index[0]) * batch.size;
      const Wide* weights = batch.weights + 2 * row;
      const auto a = gather.template block_of<2>(block, from);
      const auto b = gather.template block_of<2>(block, from + batch.size);
      Wide part[L];
      store(part, fma(broadcast(weights[1]), b, broadcast(weights[0]) * a));
      std::copy(part, part + count, batch.target + row * table.elements() + first);
    }
    first += L;
  }
}

// Makes a batch in parts of equal length, such that the L1 cache has space for the next part.
template <class Wide>
void sum_row_batch_in_parts(const Gather<Wide>& gather, const RowBatch<Wide>& batch) {
  constexpr int64_t kBytes = 8 << 10;  // of the result
  const int64_t row = gather.elements(), bytes = row * static_cast<int64_t>(sizeof(Wide));
  const int64_t parts = (batch.count * bytes + kBytes - 1) / kBytes;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t begin = batch.count * part / parts, end = batch.count * (part + 1) / parts;
    const int64_t* index = batch.index + 2 * begin;
    sum_row_batch(gather,
                  {batch.source + (index[0] - batch.index[0]) * batch.size, batch.size, index,
                   batch.weights + 2 * begin, end - begin, batch.target + begin * row});
  }
}

}  // namespace myops::resize::MYOPS_ISA
