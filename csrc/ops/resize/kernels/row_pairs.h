// Rows of the result that are made from the same two source rows, two taps in both directions, in
// one pass.
#pragma once

#include "row_batch.h"

namespace myops::resize::MYOPS_ISA {

template <class Wide>
struct RowPair {
  static constexpr int64_t kMost = 3;  // rows of the result

  const Wide* rows[2];
  const Wide* weights;  // of both rows, for each row of the result
  int64_t count;        // of rows of the result
  bool non_temporal;    // see Plan::streams()
  Wide* target;         // the first row; the others follow
};

// Calls run(std::integral_constant<int, count>()).
template <class Run>
MYOPS_INLINE auto with_count(int64_t count, const Run& run) {
  if (count == 1) return run(std::integral_constant<int, 1>());
  if (count == 2) return run(std::integral_constant<int, 2>());
  return run(std::integral_constant<int, 3>());
}

// Makes the whole blocks of one strategy from `first` on; returns their end. With kRowsFirst:
// sum(weights[0] * rows[0] + weights[1] * rows[1]), for one row; otherwise
// weights[0] * sum(rows[0]) + weights[1] * sum(rows[1]).
template <GatherStrategy kStrategy, bool kRowsFirst, int kRows, class Wide>
int64_t run_pair(const GatherTable<Wide>& table, int64_t first, const RowPair<Wide>& pair) {
  static_assert(!kRowsFirst || kRows == 1);
  using V = Vector<Wide>;
  const int64_t size = table.elements();
  const Wide *a = pair.rows[0], *b = pair.rows[1];
  Wide* const target = pair.target;
  const bool non_temporal = pair.non_temporal;
  V weight_a[kRows], weight_b[kRows];
  for (int k = 0; k < kRows; ++k) {
    weight_a[k] = broadcast(pair.weights[2 * k]);
    weight_b[k] = broadcast(pair.weights[2 * k + 1]);
  }
  const auto put = [&](int64_t at, const V& total) MYOPS_INLINED {
    if (non_temporal) return stream(target + at, total);
    store(target + at, total);
  };
  return for_sums<2, kStrategy>(
      table, first, size, [&](const auto& block, int64_t low, int64_t at) MYOPS_INLINED {
        const Wide *from_a = opaque(a + low), *from_b = opaque(b + low);
        if constexpr (kRowsFirst) {
          put(at, block.of([&](int64_t i) MYOPS_INLINED {
            return fma(weight_b[0], load(from_b + i), weight_a[0] * load(from_a + i));
          }));
        } else {
          const V sum_a = block.of([&](int64_t i) MYOPS_INLINED { return load(from_a + i); });
          const V sum_b = block.of([&](int64_t i) MYOPS_INLINED { return load(from_b + i); });
          for (int k = 0; k < kRows; ++k) {
            put(at + k * size, fma(weight_b[k], sum_b, weight_a[k] * sum_a));
          }
        }
      });
}

// Makes all rows of the result. `scratch_row` holds parts of the row that is combined first.
template <bool kRowsFirst, int kRows, class Wide>
void sum_pair(const Gather<Wide>& gather, const RowPair<Wide>& pair, Wide* scratch_row) {
  constexpr int64_t L = kLanes<Wide>;
  const GatherTable<Wide>& table = gather.table();
  for (int64_t first = 0; first < table.elements();) {
    const auto& block = *table.block(first);
    const int64_t count = std::min(L, table.elements() - first);
    if constexpr (kPermutes<Wide>) {
      if (count == L && block.strategy <= GatherStrategy::ThreeLoadsPerTap) {
        first = with_strategy(block, [&](auto strategy) {
          return run_pair<strategy, kRowsFirst, kRows>(table, first, pair);
        });
        continue;
      }
    }
    const auto put = [&](int64_t row, const Vector<Wide>& total) {
      Wide part[L];
      store(part, total);
      std::copy(part, part + count, pair.target + row * table.elements() + first);
    };
    if constexpr (kRowsFirst) {
      const Wide* rows[2] = {pair.rows[0] + block.low, pair.rows[1] + block.low};
      const int64_t size = block.high - block.low;
      sum_few<2>(rows, pair.weights, size, rows[1] + size, false, scratch_row + block.low);
      put(0, gather.template block_of<2>(block, scratch_row));
    } else {
      const auto a = gather.template block_of<2>(block, pair.rows[0]);
      const auto b = gather.template block_of<2>(block, pair.rows[1]);
      for (int k = 0; k < kRows; ++k) {
        put(k, fma(broadcast(pair.weights[2 * k + 1]), b, broadcast(pair.weights[2 * k]) * a));
      }
    }
    first += L;
  }
}

// The same with many channels innermost: `taps` are those of the columns, and neighbours are
// `channels` elements apart.
template <bool kRowsFirst, int kRows, class Wide>
void sum_pair_of_channels(const TapTable<Wide>& taps, int64_t channels, const RowPair<Wide>& pair) {
  constexpr int64_t L = kLanes<Wide>;
  const int64_t size = taps.output * channels;
  Wide weight_a[kRows], weight_b[kRows];
  for (int k = 0; k < kRows; ++k) {
    weight_a[k] = pair.weights[2 * k];
    weight_b[k] = pair.weights[2 * k + 1];
  }
  Wide* target = pair.target;
  for (int64_t o = 0; o < taps.output; ++o, target += channels) {
    const int64_t low = taps.index[2 * o] * channels, high = taps.index[2 * o + 1] * channels;
    const Wide *a0 = pair.rows[0] + low, *a1 = pair.rows[0] + high;
    const Wide *b0 = pair.rows[1] + low, *b1 = pair.rows[1] + high;
    const Wide w0 = taps.weight[2 * o], w1 = taps.weight[2 * o + 1];
    const auto sums = [&](int64_t i, const auto& value, const auto& scalar, const auto& put) {
      if constexpr (kRowsFirst) {
        const auto x0 =
            fma(scalar(weight_b[0]), value(b0 + i), scalar(weight_a[0]) * value(a0 + i));
        const auto x1 =
            fma(scalar(weight_b[0]), value(b1 + i), scalar(weight_a[0]) * value(a1 + i));
        put(target + i, fma(scalar(w1), x1, scalar(w0) * x0));
      } else {
        const auto a = fma(scalar(w1), value(a1 + i), scalar(w0) * value(a0 + i));
        const auto b = fma(scalar(w1), value(b1 + i), scalar(w0) * value(b0 + i));
        for (int k = 0; k < kRows; ++k) {
          put(target + k * size + i, fma(scalar(weight_b[k]), b, scalar(weight_a[k]) * a));
        }
      }
    };
    int64_t i = 0;
    for (; i + L <= channels; i += L) {
      sums(
          i, [&](const Wide* from) { return load(from); },
          [&](Wide weight) { return broadcast(weight); },
          [&](Wide* to, const Vector<Wide>& total) { store(to, total); });
    }
    for (; i < channels; ++i) {
      sums(
          i, [&](const Wide* from) { return *from; }, [&](Wide weight) { return weight; },
          [&](Wide* to, Wide total) { *to = total; });
    }
  }
}

template <class Wide>
struct RowPairScratch {
  Wide* row;     // for a row that is summed first
  Wide* result;  // for rows that are then copied with non-temporal stores
};

// Makes the rows [begin, end) of the level before the last, up to `most` together (see
// Plan::from_row_pairs).
template <class Wide>
void fill_row_pairs(const Plan<Wide>& plan, const Gather<Wide>* gather,
                    const RowPairScratch<Wide>& memory, int64_t most, bool streams, int64_t begin,
                    int64_t end, const Wide* source, Wide* target) {
  const size_t depth = plan.levels.size() - 2;
  const Level<Wide>&level = plan.levels[depth], &last = plan.levels.back();
  const int64_t size = level.in_volume, stride = last.in_volume;
  const bool gathers = gather != nullptr, rows_first = level.first;
  const bool batches =
      !rows_first && gathers && !streams && makes_row_batches<Wide>(level.out_volume);
  if (rows_first) most = 1;
  RowPair<Wide> pair;
  for (int64_t o = begin; o < end; o += pair.count, target += pair.count * level.out_volume) {
    const int64_t* index = level.taps.index.data() + 2 * o;
    const int64_t batch = batches ? row_batch_size(index, end - o) : 0;
    if constexpr (kPermutes<Wide>)
      if (batch > 0) {
        sum_row_batch_in_parts(*gather, {source + index[0] * size, size, index,
                                         level.taps.weight.data() + 2 * o, batch, target});
        pair.count = batch;
        continue;
      }
    pair.rows[0] = source + index[0] * size, pair.rows[1] = source + index[1] * size;
    pair.weights = level.taps.weight.data() + 2 * o;
    for (pair.count = 1; pair.count < std::min(most, end - o); ++pair.count) {
      if (!std::equal(index, index + 2, index + 2 * pair.count)) break;
    }
    pair.non_temporal = streams && gathers;
    const bool copied = streams && !gathers;
    pair.target = copied ? memory.result : target;
    const auto sum = [&](auto first, auto count) {
      if constexpr (kPermutes<Wide>) {
        if (gathers) return sum_pair<first, count>(*gather, pair, memory.row);
      }
      sum_pair_of_channels<first, count>(last.taps, stride, pair);
    };
    if (rows_first) {
      sum(std::true_type(), std::integral_constant<int, 1>());
    } else {
      with_count(pair.count, [&](auto count) { sum(std::false_type(), count); });
    }
    if (copied) stream_copy(pair.target, pair.count * level.out_volume, target);
  }
}

}  // namespace myops::resize::MYOPS_ISA
