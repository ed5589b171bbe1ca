// The short roads, Within to Far: loops over whole blocks, as many as follow one another.
#pragma once

#include "gather_table.h"

namespace myops::resize::MYOPS_ISA {

// Where the taps of a block lie, on a road from Within to Far.
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

// Calls run(road, kAlike), both constants, for a block on a road from Within to Far.
template <class Block, class Run>
MYOPS_INLINE int64_t with_road(const Block& block, const Run& run) {
  using Road = GatherRoad;
  constexpr std::integral_constant<Road, Road::Within> within;
  constexpr std::integral_constant<Road, Road::Near> near;
  constexpr std::integral_constant<Road, Road::Far> far;
  constexpr std::true_type alike;
  constexpr std::false_type each;
  if (block.road == Road::Far) return run(far, each);
  if (block.road == Road::Near) return block.alike ? run(near, alike) : run(near, each);
  return block.alike ? run(within, alike) : run(within, each);
}

// The run of blocks that begins at `first`, as far as it lies before `end`: load(block) loads the
// tables of one, make(tables, low, at) makes it. Returns where it ends.
template <bool kAlike, class Wide, class Load, class Make>
MYOPS_INLINE int64_t for_blocks(const GatherTable<Wide>& table, int64_t first, int64_t end,
                                const Load& load, const Make& make) {
  constexpr int64_t L = kLanes<Wide>;
  const auto* block = table.block(first);
  const int64_t stop = table.run_end(*block, first, end);
  if constexpr (kAlike) {
    const auto tables = load(*block);
    const int64_t shift = block->shift;
    for (int64_t low = block->low; first < stop; first += L, low += shift) make(tables, low, first);
  } else {
    for (; first < stop; first += L, ++block) make(load(*block), block->low, first);
  }
  return stop;
}

}  // namespace myops::resize::MYOPS_ISA
