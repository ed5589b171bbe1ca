// Kernel "small": calls of so few elements that vectors across rows, strips and their memory would
// take longer than the sums. Every level is computed completely before the next one, in memory on
// the stack, by one thread.
//
// The sums are those of slab_sum.h, in the same order.
#pragma once

#include <array>
#include <optional>

#include "../plan/plan.h"
#include "slab_sum.h"

namespace myops::resize::MYOPS_ISA {

template <class T, class Wide>
class Small {
  static constexpr int64_t kMostLevels = 3, kMostTaps = 8;
  static constexpr int64_t kMemory = 512;  // elements between the levels

 public:
  static bool supports(const Plan<Wide>& plan) {
    if (plan.levels.size() == 1 || plan.levels.size() > kMostLevels) return false;
    const Level<Wide>&first = plan.levels.front(), &last = plan.levels.back();
    // (Measured: where others begin to be faster.)
    constexpr int64_t kMostWritten = 4096, kMostScalars = std::is_same_v<T, Wide> ? 640 : 192;
    if (plan.outer * first.taps.output * first.out_volume > kMostWritten) return false;
    int64_t rows = plan.outer, between = 0;
    for (const Level<Wide>& level : plan.levels) {
      if (level.taps.widest > kMostTaps) return false;
      if (&level == &last) break;
      between += slabs_between(level);
      rows *= level.blocks * (level.first ? level.taps.output : read(level));
    }
    // Few channels are as slow as one: a vector for each pixel.
    constexpr int64_t kFewChannels = 8;
    const int64_t scalars =
        last.in_volume < kFewChannels ? rows * (last.taps.output + taps_of(last)) : 0;
    return between <= kMemory - kLanes<Wide> && scalars <= kMostScalars;
  }

  Small(const KernelContext& context, const Plan<Wide>& plan) : plan_(plan) {
    const size_t levels = std::min(plan.levels.size(), sums_.size());
    for (size_t depth = 0; depth < levels; ++depth) {
      const Level<Wide>& level = plan.levels[depth];
      if (depth + 1 < levels || level.in_volume > 1) sums_[depth].emplace(context, level.taps);
    }
  }

  void run(const T* source, T* target) const {
    // Vectors reach beyond what a level has written. If that were denormal numbers, as pointers are
    // that the stack had before, each product would take a hundred nanoseconds.
    alignas(64) Wide memory[kMemory] = {};
    tensors(0, plan_.outer, source, target, memory);
  }

 private:
  // The slabs of the source from the first that is read to the last.
  static int64_t read(const Level<Wide>& level) {
    return std::max<int64_t>(level.taps.high + 1 - level.taps.low, 0);
  }
  static int64_t slabs_between(const Level<Wide>& level) {
    return level.first ? level.taps.output * level.in_volume : read(level) * level.out_volume;
  }
  static int64_t taps_of(const Level<Wide>& level) {
    return static_cast<int64_t>(level.taps.index.size());
  }

  // Consecutive tensors that start at the axis of a level.
  template <class From, class Out>
  MYOPS_NOINLINE void tensors(size_t depth, int64_t count, const From* source, Out* target,
                              Wide* memory) const {
    const Level<Wide>& level = plan_.levels[depth];
    const int64_t in = level.taps.input * level.in_volume;
    const int64_t out = level.taps.output * level.out_volume;
    for (int64_t i = 0; i < count; ++i, source += in, target += out) {
      const SlabPlaces<From> places{source, level.in_volume, source + in};
      if (depth + 1 == plan_.levels.size()) {
        last(depth, places, target);
      } else if (level.first) {
        sum(depth, places, level.in_volume, memory);
        tensors(depth + 1, level.taps.output * level.blocks, static_cast<const Wide*>(memory),
                target, memory + slabs_between(level));
      } else {
        const int64_t low = level.taps.low, size = level.out_volume;
        Wide* behind = memory + slabs_between(level);
        tensors(depth + 1, read(level) * level.blocks, source + low * level.in_volume, memory,
                behind);
        sum(depth, SlabPlaces<Wide>{memory - low * size, size, behind + kLanes<Wide>}, size,
            target);
      }
    }
  }

  template <class From, class Out>
  void sum(size_t depth, const SlabPlaces<From>& places, int64_t size, Out* target) const {
    const TapTable<Wide>& taps = plan_.levels[depth].taps;
    sums_[depth]->run(0, taps.output, places, size, target);
  }

  template <class From, class Out>
  void last(size_t depth, const SlabPlaces<From>& places, Out* target) const {
    if (places.size > 1) return sum(depth, places, places.size, target);
    const TapTable<Wide>& taps = plan_.levels[depth].taps;
    const auto one = [&](int64_t o) {
      const int64_t first = taps.first[o];
      target[o] = to_element<Out>(weighted<Wide>(
          taps.count(o), [&](int64_t k) { return taps.weight[first + k]; },
          [&](int64_t k) { return static_cast<Wide>(places.begin[taps.index[first + k]]); }));
    };
    if (taps.is_sparse()) {
      std::memset(static_cast<void*>(target), 0, bytes_of<Out>(taps.output));
      return taps.each_filled(0, taps.output, one);
    }
    for (int64_t o = 0; o < taps.output; ++o) one(o);
  }

  const Plan<Wide>& plan_;
  std::array<std::optional<SlabSum<Wide>>, kMostLevels> sums_;  // where slabs have several elements
};

}  // namespace myops::resize::MYOPS_ISA
