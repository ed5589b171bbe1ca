// Loops over whole blocks, as many as follow one another, of the strategies up to
// TwoLoadsAnyOrder; gather.h has the others.
#pragma once

#include <array>
#include <utility>

#include "gather_table.h"

namespace myops::resize::MYOPS_ISA {

// The source vectors and permutations of a block with such a strategy. `step`: see Block::step().
template <class Wide, int kTaps, GatherStrategy kStrategy>
class Places {
 public:
  Places(const int32_t* index, int64_t step) : step_(step) {
    for (int k = 0; k < kTables; ++k) {
      at_[k] = load_as<Index<Wide>>(index + k * kLanes<Wide>);
    }
  }

  // x[k]: the source elements of tap k; value(i) is the vector that begins i elements behind the
  // block's `low`.
  template <class Value>
  MYOPS_INLINE void pick(const Value& value, Vector<Wide>* x) const {
    constexpr int64_t L = kLanes<Wide>;
    if constexpr (kStrategy == GatherStrategy::OneLoad) {
      const Vector<Wide> all = value(0);
      for (int k = 0; k < kTaps; ++k) x[k] = permute(all, at_[k]);
    } else if constexpr (kStrategy == GatherStrategy::TwoLoadsAnyOrder) {
      const Vector<Wide> low = value(0), high = value(step_);
      for (int k = 0; k < kTaps; ++k) x[k] = permute(low, high, at_[k]);
    } else {
      for (int k = 0; k < kTaps; ++k) {
        if constexpr (kStrategy == GatherStrategy::LoadPerTap) {
          x[k] = permute(value(k * step_), at_[0]);
        } else if constexpr (kStrategy == GatherStrategy::TwoLoadsPerTap) {
          x[k] = permute(value(k * step_), value(k * step_ + L), at_[0]);
        } else {
          x[k] = permute(value(k * step_), value(k * step_ + L), value(k * step_ + 2 * L), at_[0]);
        }
      }
    }
  }

 private:
  static constexpr bool kEach =
      kStrategy == GatherStrategy::OneLoad || kStrategy == GatherStrategy::TwoLoadsAnyOrder;
  static constexpr int kTables = kEach ? kTaps : 1;
  Index<Wide> at_[kTables];
  int64_t step_;
};

// The weighted sums of a block with such a strategy.
template <class Wide, int kTaps, GatherStrategy kStrategy>
class BlockSum {
 public:
  BlockSum(const int32_t* index, const Wide* weight, int64_t step) : places_(index, step) {
    for (int k = 0; k < kTaps; ++k) weight_[k] = load(weight + k * kLanes<Wide>);
  }

  // As in Places::pick().
  template <class Value>
  MYOPS_INLINE Vector<Wide> of(const Value& value) const {
    Vector<Wide> x[kTaps];
    places_.pick(value, x);
    Vector<Wide> total = weight_[0] * x[0];
    for (int k = 1; k < kTaps; ++k) total = fma(weight_[k], x[k], total);
    return total;
  }

 private:
  Places<Wide, kTaps, kStrategy> places_;
  Vector<Wide> weight_[kTaps];
};

// Calls run(strategy), a constant.
template <class Block, class Run>
MYOPS_INLINE auto with_strategy(const Block& block, const Run& run) {
  using Strategy = GatherStrategy;
  if (block.strategy == Strategy::OneLoad)
    return run(std::integral_constant<Strategy, Strategy::OneLoad>());
  if (block.strategy == Strategy::LoadPerTap)
    return run(std::integral_constant<Strategy, Strategy::LoadPerTap>());
  if (block.strategy == Strategy::TwoLoadsPerTap)
    return run(std::integral_constant<Strategy, Strategy::TwoLoadsPerTap>());
  if (block.strategy == Strategy::ThreeLoadsPerTap)
    return run(std::integral_constant<Strategy, Strategy::ThreeLoadsPerTap>());
  return run(std::integral_constant<Strategy, Strategy::TwoLoadsAnyOrder>());
}

// Calls run(cycle), a constant, for a block of copies: see Block.
template <GatherStrategy kStrategy, class Block, class Run>
MYOPS_INLINE int64_t with_cycle(const Block& block, const Run& run) {
  if constexpr (kStrategy == GatherStrategy::OneLoad) {
    if (block.cycle == 1) return run(std::integral_constant<int, 1>());
    if (block.cycle == 2) return run(std::integral_constant<int, 2>());
    if (block.cycle == 3) return run(std::integral_constant<int, 3>());
    if (block.cycle == 9) return run(std::integral_constant<int, 9>());
  }
  return run(std::integral_constant<int, 0>());
}

// The run of blocks from `first` on, up to `end`. load(block) loads the tables of a block;
// repeating tables are loaded here once. kCycle: see Block.
template <int kCycle, class Wide, class Load>
class BlockRun {
  using Block = typename GatherTable<Wide>::Block;

 public:
  MYOPS_INLINE BlockRun(const GatherTable<Wide>& table, int64_t first, int64_t end,
                        const Load& load)
      : BlockRun(table, first, end, load, std::make_index_sequence<kCycle>()) {}

  int64_t stop() const { return stop_; }

  // make(tables, low, at) makes a block.
  template <class Make>
  MYOPS_INLINE void each(const Make& make) const {
    if constexpr (kCycle == 0) {
      const Block* block = blocks_;
      for (int64_t at = begin_; at < end_; at += L, ++block) {
        make(load_(*block), block->low, std::min(at, last_));
      }
    } else {
      each_cycle(make, std::make_index_sequence<kCycle>());
    }
  }

 private:
  static constexpr int64_t L = kLanes<Wide>;
  using Tables = decltype(std::declval<Load>()(std::declval<Block>()));

  template <size_t... k>
  MYOPS_INLINE BlockRun(const GatherTable<Wide>& table, int64_t first, int64_t end,
                        const Load& load, std::index_sequence<k...>)
      : load_(load),
        blocks_(table.block(first)),
        begin_(table.begin_of(first)),
        stop_(table.run_end(*blocks_, first, end)),
        end_(begin_ + stop_ - first),
        last_(table.elements() - L),
        shift_(blocks_->shift),
        behind_{(k == 0 ? 0 : blocks_[k].low - blocks_->low)...},
        tables_{load_(blocks_[k])...} {}

  // (Unrolled by a fold expression: in a loop the tables would be read from memory.)
  template <class Make, size_t... k>
  MYOPS_INLINE void each_cycle(const Make& make, std::index_sequence<k...>) const {
    constexpr int64_t kAt[] = {static_cast<int64_t>(k) * L...};
    int64_t low = blocks_->low, at = begin_;
    for (; at + kAt[kCycle - 1] < end_; at += kCycle * L, low += shift_) {
      (make(tables_[k], low + behind_[k], at + kAt[k]), ...);
    }
    // The blocks of an incomplete last cycle.
    ((k + 1 < kCycle && at + kAt[k] < end_ ? make(tables_[k], low + behind_[k], at + kAt[k])
                                           : void()),
     ...);
  }

  const Load& load_;
  const Block* blocks_;
  int64_t begin_, stop_, end_, last_, shift_;
  std::array<int64_t, kCycle> behind_;
  std::array<Tables, kCycle> tables_;
};

// Calls make(block, low, at) for each block of a run of sums. Returns where the run ends.
template <int kTaps, GatherStrategy kStrategy, class Wide, class Make>
MYOPS_INLINE int64_t for_sums(const GatherTable<Wide>& table, int64_t first, int64_t end,
                              const Make& make) {
  using Block = typename GatherTable<Wide>::Block;
  const int32_t* index = table.all_indices();
  const Wide* weight = table.all_weights();
  const auto load_sum = [index, weight, step = table.step()](const Block& block) MYOPS_INLINED {
    return BlockSum<Wide, kTaps, kStrategy>(index + block.index, weight + block.weight,
                                            block.template step<kStrategy>(step));
  };
  const BlockRun<0, Wide, decltype(load_sum)> blocks(table, first, end, load_sum);
  blocks.each(make);
  return blocks.stop();
}

}  // namespace myops::resize::MYOPS_ISA
