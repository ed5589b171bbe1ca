// Short rows of the result, one after the other made from two neighbouring rows of the source, two
// taps in both directions, as row_pairs.h makes them, in equal bits.
//
// They are made block by block, all rows of a block: its tables are loaded once, and what is summed
// of a row of the source serves all rows that it is part of (64 channels by 2: 112 -> 88 us).
// Memory sees neither the reads nor the writes in order, so each step asks for what the next chain
// needs.
#pragma once

#include "plan.h"

namespace myops::resize::MYOPS_ISA {

template <class Wide>
struct RowBatch {
  const Wide* source;    // the first row
  int64_t size;          // of a source row
  const int64_t* index;  // of both source rows, for each row of the result
  const Wide* weights;   // the same
  int64_t count;         // of rows of the result
  Wide* target;
};

// Whether rows of so many elements are made in chains. Longer ones keep their tables in registers,
// and with AVX2 then take less time by themselves.
template <class Wide>
bool makes_chains(int64_t row) {
  return kPermutes<Wide> && row <= 16 * kLanes<Wide>;
}

// How many of `rows` rows of the result make a chain; 0 where so few do that they take as long by
// themselves.
inline int64_t row_batch_size(const int64_t* index, int64_t rows) {
  constexpr int64_t kFew = 4;
  int64_t count = 0;
  for (; count < rows; ++count, index += 2) {
    if (index[1] != index[0] + 1 || (count > 0 && index[0] > index[-2] + 1)) break;
  }
  return count < kFew ? 0 : count;
}

// The whole blocks of one strategy that follow one another from `first` on; returns their end.
template <GatherStrategy kStrategy, class Wide>
MYOPS_NOINLINE int64_t run_row_batch(const GatherTable<Wide>& table, int64_t first,
                                     const RowBatch<Wide>& given) {
  using V = Vector<Wide>;
  constexpr int64_t L = kLanes<Wide>;
  const RowBatch<Wide> chain = given;
  const int64_t step = table.step(), size = table.elements();
  const int32_t* index = table.all_indices();
  const Wide* weight = table.all_weights();
  const int64_t rows_read = chain.index[2 * chain.count - 1] - chain.index[0] + 1;
  const PrefetchRange next{chain.source + rows_read * chain.size,
                           rows_read * chain.size * static_cast<int64_t>(sizeof(Wide)) / size};
  return for_blocks<0>(
      table, first, size,
      [&](const auto& block) MYOPS_INLINED {
        return BlockSum<Wide, 2, kStrategy>(index + block.index, weight + block.weight, step);
      },
      [&](const auto& block, int64_t low, int64_t at) MYOPS_INLINED {
        const Wide* from = opaque(chain.source + low);
        Wide* to = opaque(chain.target + at);
        const Wide* written_next = chain.target + (size + at) * chain.count;
        next.prefetch(at, L);
        const auto sum = [&]() MYOPS_INLINED {
          return block.of([&](int64_t i) MYOPS_INLINED { return load(from + i); });
        };
        V sum_a = sum();
        from += chain.size;
        V sum_b = sum();
        for (int64_t row = 0; row < chain.count; ++row, to += size, written_next += L) {
          if (row > 0 && chain.index[2 * row] != chain.index[2 * row - 2]) {
            sum_a = sum_b;
            from += chain.size;
            sum_b = sum();
          }
          __builtin_prefetch(written_next, 1);
          store(to, fma(broadcast(chain.weights[2 * row + 1]), sum_b,
                        broadcast(chain.weights[2 * row]) * sum_a));
        }
      });
}

template <class Wide>
void sum_row_batch(const Gather<Wide>& gather, const RowBatch<Wide>& chain) {
  constexpr int64_t L = kLanes<Wide>;
  const GatherTable<Wide>& table = gather.table();
  for (int64_t first = 0; first < table.elements();) {
    const auto& block = *table.block(first);
    const int64_t count = std::min(L, table.elements() - first);
    if constexpr (kPermutes<Wide>) {
      if (count == L && block.strategy <= GatherStrategy::ThreeLoadsPerTap) {
        first = with_strategy<false>(block, [&](auto strategy, auto) {
          return run_row_batch<strategy>(table, first, chain);
        });
        continue;
      }
    }
    for (int64_t row = 0; row < chain.count; ++row) {
      const Wide* from = chain.source + (chain.index[2 * row] - chain.index[0]) * chain.size;
      const Wide* weights = chain.weights + 2 * row;
      const auto a = gather.template block_of<2>(block, first, from);
      const auto b = gather.template block_of<2>(block, first, from + chain.size);
      Wide part[L];
      store(part, fma(broadcast(weights[1]), b, broadcast(weights[0]) * a));
      std::copy(part, part + count, chain.target + row * table.elements() + first);
    }
    first += L;
  }
}

// A chain in parts of equal length, which leave the first cache room for the next one.
template <class Wide>
void sum_row_batch_in_parts(const Gather<Wide>& gather, const RowBatch<Wide>& chain) {
  constexpr int64_t kBytes = 8 << 10;  // of the result
  const int64_t row = gather.elements(), bytes = row * static_cast<int64_t>(sizeof(Wide));
  const int64_t parts = (chain.count * bytes + kBytes - 1) / kBytes;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t begin = chain.count * part / parts, end = chain.count * (part + 1) / parts;
    const int64_t* index = chain.index + 2 * begin;
    sum_row_batch(gather,
                  {chain.source + (index[0] - chain.index[0]) * chain.size, chain.size, index,
                   chain.weights + 2 * begin, end - begin, chain.target + begin * row});
  }
}

}  // namespace myops::resize::MYOPS_ISA
