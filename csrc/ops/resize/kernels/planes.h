// Kernel "planes": many small tensors, such as the 7 x 7 maps of a network's last layers. Several
// tensors are transposed, so that a vector contains the same element of each; all axes are then
// resampled in that layout, in which no row is too short for a vector.
#pragma once

#include "../plan/plan.h"
#include "lanes.h"

namespace myops::resize::MYOPS_ISA {

template <class T, class Wide>
class Planes {
  static constexpr int64_t kTensors = LaneTable<Wide>::kRows;
  static constexpr int64_t L = kLanes<Wide>;

 public:
  // Whether the plan's tensors are small and many.
  static bool supports(const Plan<Wide>& plan) {
    const Level<Wide>&first = plan.levels.front(), &last = plan.levels.back();
    const int64_t row = std::min(last.taps.input, last.taps.output) * last.in_volume;
    constexpr int64_t kShortRow = 8, kFewElements = 24;
    const int64_t most = row <= kTensors ? 4096 : 1024;
    // (Of a single axis, longer rows are faster with "lanes", which needs no additional pass for
    // the result.)
    constexpr int64_t kShortest = 16;
    const int64_t longest = std::max(last.taps.input, last.taps.output) * last.in_volume;
    if (plan.levels.size() == 1 && longest > kShortest) return false;
    if (2 * plan.outer < L || last.in_volume >= LaneTable<Wide>::kMostSteps) return false;
    if (first.in_volume * first.taps.input > most || first.out_volume * first.taps.output > most) {
      return false;
    }
    // (Measured: longer rows are faster as they are, 0.87 of the time.)
    if (row > kShortRow && longest > kFewElements) return false;
    // Rows of a few vectors are combined faster as they are, without those that no output reads.
    constexpr int64_t kLongRow = 24;
    if (plan.levels.size() == 2 && first.first && 2 * first.taps.output <= first.taps.input &&
        last.taps.input * last.in_volume >= kLongRow) {
      return false;
    }
    return widest(plan) <= std::max<int64_t>(most, 2048);
  }

  Planes(const KernelContext& context, const Plan<Wide>& plan)
      : plan_(plan),
        slabs_{context.scratch_array<Wide>(std::max(widest(plan), L) * kTensors),
               context.scratch_array<Wide>(std::max(widest(plan), L) * kTensors)} {
    for (const Level<Wide>& level : plan.levels) sums_.emplace_back(context, level.taps);
  }

  // Tensors per piece of parallel work.
  static int64_t grain(const Plan<Wide>& plan) {
    constexpr int64_t kElements = 1 << 15;
    const int64_t most = std::max<int64_t>(1, kElements / widest(plan) / kTensors) * kTensors;
    const int64_t even = Plan<Wide>::even_grain(plan.outer, most);
    return (even + kTensors - 1) / kTensors * kTensors;
  }

  void run(int64_t begin, int64_t end, const T* source, T* target) const {
    const Level<Wide>& first = plan_.levels.front();
    const int64_t in = first.taps.input * first.in_volume;
    const int64_t out = first.taps.output * first.out_volume;
    for (int64_t at = begin; at < end; at += kTensors) {
      const int64_t count = std::min(kTensors, end - at);
      constexpr int kVectors = static_cast<int>(kTensors / L);
      if constexpr (kVectors > 1) {
        if (count <= kTensors / 2) {
          group<kVectors / 2>(count, in, out, source + at * in, target + at * out);
          continue;
        }
      }
      group<kVectors>(count, in, out, source + at * in, target + at * out);
    }
  }

 private:
  // The most elements of a tensor before, between and after the passes.
  static int64_t widest(const Plan<Wide>& plan) {
    int64_t most = 0;
    each_pass(plan, [&](size_t, int64_t outer, int64_t, int64_t in, int64_t out) {
      most = std::max(most, outer * std::max(in, out));
    });
    return most;
  }

  // Calls pass(level, tensors before the axis, elements behind it, their product with the axis
  // before, after) in the order of the sums.
  template <class Pass>
  static void each_pass(const Plan<Wide>& plan, const Pass& pass) {
    const std::vector<Level<Wide>>& levels = plan.levels;
    const size_t last = levels.size() - 1;
    const auto one = [&](size_t depth) {
      const Level<Wide>& level = levels[depth];
      int64_t outer = 1;
      for (size_t i = 0; i < depth; ++i) {
        outer *=
            (levels[i].first ? levels[i].taps.output : levels[i].taps.input) * levels[i].blocks;
      }
      const int64_t inner = level.first ? level.in_volume : level.out_volume;
      pass(depth, outer, inner, level.taps.input * inner, level.taps.output * inner);
    };
    for (size_t depth = 0; depth < last; ++depth) {
      if (levels[depth].first) one(depth);
    }
    one(last);
    for (size_t depth = last; depth-- > 0;) {
      if (!levels[depth].first) one(depth);
    }
  }

  template <int kVectors>
  void group(int64_t count, int64_t in, int64_t out, const T* source, T* target) const {
    constexpr int64_t kSlab = kVectors * L;
    const T* rows[kSlab];
    for (int64_t i = 0; i < kSlab; ++i) rows[i] = source + std::min(i, count - 1) * in;
    Wide *from = slabs_[0].data(), *to = slabs_[1].data();
    pack<kVectors>(rows, 0, in, source + count * in, from);
    each_pass(plan_,
              [&](size_t depth, int64_t outer, int64_t inner, int64_t before, int64_t after) {
                const int64_t size = inner * kSlab;
                for (int64_t i = 0; i < outer; ++i) {
                  const Wide* tensor = from + i * before * kSlab;
                  sums_[depth].run(0, plan_.levels[depth].taps.output,
                                   SlabPlaces<Wide>{tensor, size, tensor + before * kSlab}, size,
                                   to + i * after * kSlab);
                }
                std::swap(from, to);
              });
    int64_t at = 0;
    for (; at + L <= out; at += L) unpack<kVectors>(from + at * kSlab, count, L, target + at, out);
    if (at == out) return;
    if (out >= L) {
      return unpack<kVectors>(from + (out - L) * kSlab, count, L, target + (out - L), out);
    }
    std::fill_n(from + out * kSlab, (L - out) * kSlab, Wide(0));
    unpack<kVectors>(from, count, out, target, out);
  }

  const Plan<Wide>& plan_;
  ScratchArray<Wide> slabs_[2];
  std::vector<SlabSum<Wide>> sums_;  // of each level
};

}  // namespace myops::resize::MYOPS_ISA
