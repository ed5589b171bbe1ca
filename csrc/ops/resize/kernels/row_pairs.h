// Kernel "row_pairs": rows of the result from two source rows each, two taps in both directions, in
// one pass: short ones in batches (row_batch.h), longer ones one by one, or up to three that are
// made from the same two rows.
#pragma once

#include "row_batch.h"

namespace myops::resize::MYOPS_ISA {

// Makes the whole blocks of one strategy from `first` on, of kRows rows that are made from the same
// two, a and b; returns their end. With kRowsFirst: sum(weights[0] * a + weights[1] * b), for one
// row; otherwise weights[0] * sum(a) + weights[1] * sum(b).
template <GatherStrategy kStrategy, bool kRowsFirst, int kRows, class Wide>
int64_t run_pair(const GatherTable<Wide>& table, int64_t first, const RowBatch<Wide>& pair) {
  static_assert(!kRowsFirst || kRows == 1);
  using V = Vector<Wide>;
  const int64_t size = table.elements();
  const Wide *a = pair.row(0), *b = pair.row(1);
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

// Makes all rows, which are kRows of a pair, or a batch (0). `scratch_row` holds parts of a row
// that is combined first.
template <bool kRowsFirst, int kRows, class Wide>
void make_rows(const Gather<Wide>& gather, const RowBatch<Wide>& batch, Wide* scratch_row) {
  const GatherTable<Wide>& table = gather.table();
  for (int64_t first = 0; first < table.elements();) {
    const auto& block = *table.block(first);
    if constexpr (kPermutes<Wide>) {
      if (block.strategy < GatherStrategy::LoadPerElement) {
        first = with_strategy(block, [&](auto strategy) {
          if constexpr (kRows == 0)
            return run_batch<strategy, kRowsFirst>(table, first, batch);
          else
            return run_pair<strategy, kRowsFirst, kRows>(table, first, batch);
        });
        continue;
      }
    }
    for (int64_t row = 0; row < batch.count; ++row) {
      const Wide *a = batch.row(2 * row), *b = batch.row(2 * row + 1);
      const Wide* weights = batch.weights + 2 * row;
      Wide* to = batch.target + row * table.elements() + table.begin_of(first);
      if constexpr (kRowsFirst) {
        const Wide* rows[2] = {a + block.low, b + block.low};
        const int64_t size = block.high - block.low;
        sum_few<2>(rows, weights, size, rows[1] + size, scratch_row + block.low);
        store(to, gather.template block_of<2>(block, scratch_row));
      } else {
        store(to, fma(broadcast(weights[1]), gather.template block_of<2>(block, b),
                      broadcast(weights[0]) * gather.template block_of<2>(block, a)));
      }
    }
    first += kLanes<Wide>;
  }
}

// The same with at least a vector of channels innermost: `taps` are those of the columns, and
// neighbours are `channels` elements apart.
template <bool kRowsFirst, int kRows, class Wide>
void make_rows_of_channels(const TapTable<Wide>& taps, int64_t channels,
                           const RowBatch<Wide>& pair) {
  using V = Vector<Wide>;
  constexpr int64_t L = kLanes<Wide>;
  const int64_t size = taps.output * channels;
  V weight_a[kRows], weight_b[kRows];
  for (int k = 0; k < kRows; ++k) {
    weight_a[k] = broadcast(pair.weights[2 * k]);
    weight_b[k] = broadcast(pair.weights[2 * k + 1]);
  }
  Wide* target = pair.target;
  for (int64_t o = 0; o < taps.output; ++o, target += channels) {
    const int64_t low = taps.index[2 * o] * channels, high = taps.index[2 * o + 1] * channels;
    const Wide *a0 = pair.row(0) + low, *a1 = pair.row(0) + high;
    const Wide *b0 = pair.row(1) + low, *b1 = pair.row(1) + high;
    const V w0 = broadcast(taps.weight[2 * o]), w1 = broadcast(taps.weight[2 * o + 1]);
    for (int64_t i = 0; i < channels; i += L) {
      i = std::min(i, channels - L);  // the last ones a second time
      if constexpr (kRowsFirst) {
        const V x0 = fma(weight_b[0], load(b0 + i), weight_a[0] * load(a0 + i));
        const V x1 = fma(weight_b[0], load(b1 + i), weight_a[0] * load(a1 + i));
        store(target + i, fma(w1, x1, w0 * x0));
      } else {
        const V a = fma(w1, load(a1 + i), w0 * load(a0 + i));
        const V b = fma(w1, load(b1 + i), w0 * load(b0 + i));
        for (int k = 0; k < kRows; ++k) {
          store(target + k * size + i, fma(weight_b[k], b, weight_a[k] * a));
        }
      }
    }
  }
}

// Rows of the level before the last (see Plan::from_row_pairs), with their working memory.
template <class Wide>
class RowPairs {
  static constexpr int64_t kMost = 3;  // rows that are made together from the same two

 public:
  // `gather`: null where channels are innermost.
  RowPairs(const KernelContext& context, const Plan<Wide>& plan, const Gather<Wide>* gather,
           bool streams)
      : level_(plan.levels[plan.levels.size() - 2]),
        last_(plan.levels.back()),
        gather_(gather),
        streams_(streams && are_lines(bytes_of<Wide>(level_.out_volume))) {
    // Several rows at once are several streams of stores, but plain stores to memory are fast for
    // one stream only.
    if (level_.first || (!streams_ && plan.bytes(sizeof(Wide)) >= cached_bytes())) most_ = 1;
    if (level_.first) row_.emplace(context.scratch_array<Wide>(level_.in_volume));
    if (streams_) result_.emplace(context.scratch_array<Wide>(most_ * level_.out_volume));
  }

  // The rows [begin, end) of a tensor. `past_caches`: as given to the constructor, or false.
  void fill(int64_t begin, int64_t end, const Wide* source, bool past_caches, Wide* target) {
    const bool gathers = gather_ != nullptr;
    const bool streams = past_caches && streams_ && are_lines(reinterpret_cast<uintptr_t>(target));
    const bool copied = streams && !gathers;
    const bool batches = gathers && !streams && kernel_enabled("resize.row_batch");
    RowBatch<Wide> batch{source, level_.in_volume,   nullptr, nullptr,
                         0,      streams && gathers, nullptr};
    for (int64_t o = begin; o < end; o += batch.count, target += batch.count * level_.out_volume) {
      const int64_t* index = batch.index = level_.taps.index.data() + 2 * o;
      batch.weights = level_.taps.weight.data() + 2 * o;
      batch.count =
          batches ? row_batch_size<Wide>(level_.first, index, end - o, level_.out_volume) : 0;
      batch.target = copied ? result_->data() : target;
      if (batch.count > 0) {
        level_.first ? make<true, 0>(batch) : make<false, 0>(batch);
        continue;
      }
      const int64_t left = std::min(most_, end - o);
      do ++batch.count;
      while (batch.count < left && std::equal(index, index + 2, index + 2 * batch.count));
      if (level_.first) {
        make<true, 1>(batch);
      } else {
        batch.count == 1   ? make<false, 1>(batch)
        : batch.count == 2 ? make<false, 2>(batch)
                           : make<false, 3>(batch);
      }
      if (copied) stream_copy(batch.target, batch.count * level_.out_volume, target);
    }
  }

 private:
  static bool are_lines(uintptr_t bytes) { return bytes % 64 == 0; }

  // kRows of a pair, or a batch (0).
  template <bool kRowsFirst, int kRows>
  void make(const RowBatch<Wide>& batch) {
    if constexpr (kPermutes<Wide>) {
      if (gather_ != nullptr) {
        return make_rows<kRowsFirst, kRows>(*gather_, batch, row_ ? row_->data() : nullptr);
      }
    }
    if constexpr (kRows > 0) {
      make_rows_of_channels<kRowsFirst, kRows>(last_.taps, last_.in_volume, batch);
    }
  }

  const Level<Wide>&level_, &last_;
  const Gather<Wide>* gather_;
  // Whether rows are stored past the caches. (Others than whole cache lines take longer then.)
  const bool streams_;
  int64_t most_ = kMost;
  std::optional<ScratchArray<Wide>> row_;     // for a row that is summed first
  std::optional<ScratchArray<Wide>> result_;  // rows that are then copied past the caches
};

}  // namespace myops::resize::MYOPS_ISA
