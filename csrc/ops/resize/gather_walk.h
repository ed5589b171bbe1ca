// The short roads, Within to Farther: loops over whole blocks, as many as follow one another.
#pragma once

#include "gather_table.h"

namespace myops::resize::MYOPS_ISA {

// Where the taps of a block lie, on a road from Within to Farther.
template <class Wide, int kTaps, GatherRoad kRoad>
class Places {
 public:
  Places(const int32_t* index, int64_t step) : step_(step) {
    for (int k = 0; k < kTables; ++k) {
      at_[k] = load_as<Index<Wide>>(index + k * kLanes<Wide>);
    }
  }

  // x[k]: what the elements read at tap k; value(i) is the vector i elements from the block's
  // `low`.
  template <class Value>
  MYOPS_INLINE void pick(const Value& value, Vector<Wide>* x) const {
    constexpr int64_t L = kLanes<Wide>;
    if constexpr (kRoad == GatherRoad::Within) {
      const Vector<Wide> all = value(0);
      for (int k = 0; k < kTaps; ++k) x[k] = permute(all, at_[k]);
    } else {
      for (int k = 0; k < kTaps; ++k) {
        if constexpr (kRoad == GatherRoad::Near) {
          x[k] = permute(value(k * step_), at_[0]);
        } else {
          x[k] = permute(value(k * step_), value(k * step_ + L), at_[0]);
        }
        if constexpr (kRoad == GatherRoad::Farther) {  // permute() looks at the lower bits alone
          const Vector<Wide> third = permute(value(k * step_ + 2 * L), at_[0]);
          x[k] = at_[0] < static_cast<int32_t>(2 * L) ? x[k] : third;
        }
      }
    }
  }

 private:
  static constexpr int kTables = kRoad == GatherRoad::Within ? kTaps : 1;
  Index<Wide> at_[kTables];
  int64_t step_;
};

// The weighted sums of a block on such a road.
template <class Wide, int kTaps, GatherRoad kRoad>
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
  Places<Wide, kTaps, kRoad> places_;
  Vector<Wide> weight_[kTaps];
};

// Calls run(road, cycle), both constants, for a block on a road from Within to Farther.
template <class Block, class Run>
MYOPS_INLINE int64_t with_road(const Block& block, const Run& run) {
  using Road = GatherRoad;
  constexpr std::integral_constant<Road, Road::Within> within;
  constexpr std::integral_constant<Road, Road::Near> near;
  const auto with_cycle = [&](auto road) {
    if (block.cycle == 1) return run(road, std::integral_constant<int, 1>());
    if (block.cycle == 3) return run(road, std::integral_constant<int, 3>());
    return run(road, std::integral_constant<int, 0>());
  };
  if (block.road == Road::Within) return with_cycle(within);
  if (block.road == Road::Near) return with_cycle(near);
  constexpr std::integral_constant<int, 0> never;
  if (block.road == Road::Far) return run(std::integral_constant<Road, Road::Far>(), never);
  return run(std::integral_constant<Road, Road::Farther>(), never);
}

// The run of blocks that begins at `first`, as far as it lies before `end`: load(block) loads the
// tables of one, make(tables, low, at) makes it. kCycle: see Block. Returns where it ends.
template <int kCycle, class Wide, class Load, class Make>
MYOPS_INLINE int64_t for_blocks(const GatherTable<Wide>& table, int64_t first, int64_t end,
                                const Load& load, const Make& make) {
  constexpr int64_t L = kLanes<Wide>;
  const auto* block = table.block(first);
  const int64_t stop = table.run_end(*block, first, end);
  int64_t low = block->low;
  if constexpr (kCycle == 1) {
    const auto tables = load(*block);
    const int64_t shift = block->shift;
    for (; first < stop; first += L, low += shift) make(tables, low, first);
  } else if constexpr (kCycle == 3) {
    const auto a = load(block[0]), b = load(block[1]), c = load(block[2]);
    const int64_t shift = block->shift, to_b = block[1].low - low, to_c = block[2].low - low;
    for (; first + 2 * L < stop; first += 3 * L, low += shift) {
      make(a, low, first);
      make(b, low + to_b, first + L);
      make(c, low + to_c, first + 2 * L);
    }
    if (first < stop) make(a, low, first);
    if (first + L < stop) make(b, low + to_b, first + L);
  } else {
    for (; first < stop; first += L, ++block) make(load(*block), block->low, first);
  }
  return stop;
}

}  // namespace myops::resize::MYOPS_ISA
