// Linear downscaling of a row by 2, with one or three channels innermost: kStep blocks of the
// result are made at once, from 2 kStep vectors of the source. Block by block, each tap would load
// two or three vectors of its own, few of which begin with a cache line.
#pragma once

#include <array>
#include <utility>

#include "../../../core/kernel_switch.h"
#include "gather_table.h"

namespace myops::resize::MYOPS_ISA {

template <class Wide, int64_t kStep>
class DownscaleByTwo {
  static constexpr int64_t L = kLanes<Wide>;
  static constexpr int64_t kShift = 2 * kStep * L;  // from one cycle, of kStep blocks, to the next
  using V = Vector<Wide>;

 public:
  // The number of cycles from `first` on, before `stop`; 0: the blocks there are not such a run.
  static int64_t cycles(const GatherTable<Wide>& table, int64_t first, int64_t stop) {
    const auto* blocks = table.block(first);
    if (table.step() != kStep || blocks->cycle != kStep || blocks->shift != kShift) return 0;
    const int64_t count = (table.run_end(*blocks, first, stop) - first) / (kStep * L);
    for (int64_t b = 0; b < kStep && count > 0; ++b) {
      const int32_t* index = table.index(blocks[b]);
      if (blocks[b].low - blocks[0].low != kPlaces[b * L]) return 0;
      for (int64_t i = 0; i < L; ++i) {
        if (index[i] != kPlaces[b * L + i] - kPlaces[b * L]) return 0;
      }
    }
    return count;
  }

  DownscaleByTwo(const GatherTable<Wide>& table, int64_t first) {
    const auto* blocks = table.block(first);
    for (int64_t b = 0; b < kStep; ++b) {
      for (int64_t k = 0; k < 2; ++k) {
        at_[b][k] = load_as<Index<Wide>>(kPlaces.data() + b * L) +
                    static_cast<int32_t>(k * kStep - vector_of(b, k) * L);
        weight_[b][k] = load(table.weight(blocks[b]) + k * L);
      }
    }
  }

  // value(at): the vector `at` elements behind the first block's source. put(block, sums): called
  // for each block, in order.
  template <class Value, class Put>
  MYOPS_INLINE void each(int64_t cycles, const Value& value, const Put& put) const {
    for (int64_t cycle = 0; cycle < cycles; ++cycle) {
      V v[2 * kStep];
      for (int64_t i = 0; i < 2 * kStep; ++i) v[i] = value(cycle * kShift + i * L);
      for_each_block([&](auto b) MYOPS_INLINED {
        put(cycle * kStep + b, fma(weight_[b][1], tap<b, 1>(v), weight_[b][0] * tap<b, 0>(v)));
      });
    }
  }

 private:
  // The source positions of the first taps of a cycle; the second taps are kStep elements behind.
  static constexpr std::array<int32_t, kStep * L> kPlaces = [] {
    std::array<int32_t, kStep * L> places{};
    for (int64_t i = 0; i < kStep * L; ++i) {
      places[i] = static_cast<int32_t>(i / kStep * 2 * kStep + i % kStep);
    }
    return places;
  }();
  // The first source vector of a tap of a block.
  static constexpr int64_t vector_of(int64_t b, int64_t k) {
    return (kPlaces[b * L] + k * kStep) / L;
  }

  template <class Run, size_t... b>
  static MYOPS_INLINE void for_each_block(const Run& run, std::index_sequence<b...>) {
    (run(std::integral_constant<int64_t, b>()), ...);
  }
  template <class Run>
  static MYOPS_INLINE void for_each_block(const Run& run) {
    for_each_block(run, std::make_index_sequence<kStep>());
  }

  template <int64_t b, int64_t k>
  MYOPS_INLINE V tap(const V* v) const {
    constexpr int64_t begin = vector_of(b, k);
    constexpr int64_t end = (kPlaces[b * L + L - 1] + k * kStep) / L;
    if constexpr (end == begin + 2) return permute(v[begin], v[begin + 1], v[end], at_[b][k]);
    return permute(v[begin], v[begin + 1], at_[b][k]);
  }

  Index<Wide> at_[kStep][2];
  V weight_[kStep][2];
};

// Calls run(downscale, cycles) if a run of such blocks begins at `first`. Returns the end of what
// was made; if only a later block begins a cycle, sets `stop` to that block.
template <class Wide, class Run>
MYOPS_INLINE int64_t halve(const GatherTable<Wide>& table, int64_t first, int64_t& stop,
                           const Run& run) {
  const auto with = [&](auto step) MYOPS_INLINED {
    using Halves = DownscaleByTwo<Wide, step>;
    constexpr int64_t kCycle = step * kLanes<Wide>;
    const int64_t behind = first % kCycle;
    if (behind > 0) {
      stop = std::min(stop, first + kCycle - behind);
      return first;
    }
    const int64_t cycles = Halves::cycles(table, first, stop);
    if (cycles > 0) run(Halves(table, first), cycles);
    return first + cycles * kCycle;
  };
  if (!kernel_enabled("resize.downscale_by_two")) return first;
  if (table.step() == 1) return with(std::integral_constant<int64_t, 1>());
  if (table.step() == 3) return with(std::integral_constant<int64_t, 3>());
  return first;
}

}  // namespace myops::resize::MYOPS_ISA
