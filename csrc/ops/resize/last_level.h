// The last level of a plan: resamples existing rows along the fastest axis in memory, or the axis
// next to the channels.
#pragma once

#include <algorithm>
#include <optional>

#include "plan.h"

namespace myops::resize::MYOPS_ISA {

template <class Wide>
class LastLevel {
 public:
  LastLevel(const KernelContext& context, const Plan<Wide>& plan, const Gather<Wide>& gather)
      : taps_(plan.levels.back().taps), stride_(plan.levels.back().in_volume), gather_(gather) {
    if (gathers()) return;
    tile_ = tile_size(taps_);
    const int64_t slabs = tile_ * taps_.widest;
    if (slabs > 0) slabs_.emplace(context.scratch(bytes_of<const Wide*>(slabs)));
  }

  // The number of slabs of a result that are combined together.
  static int64_t tile_size(const TapTable<Wide>& taps) {
    constexpr int64_t kSlabs = 16, kTaps = 256;
    return std::clamp<int64_t>(kTaps / std::max<int64_t>(taps.widest, 1), 1, kSlabs);
  }

  bool gathers() const { return Gather<Wide>::supports(stride_); }
  int64_t outputs() const { return taps_.output; }
  int64_t stride() const { return stride_; }  // elements from one output to the next

  // Whether outputs read so few elements of a row that preparing all between the first and the last
  // would take longer and, for a long row, too much memory.
  bool reads_little(int64_t begin, int64_t end) const {
    constexpr double kFew = 16;
    const auto [low, high] = gather_.reads(begin * stride_, end * stride_);
    const int64_t taps = taps_.first[end] - taps_.first[begin];
    return static_cast<double>(high - low) >
           kFew * static_cast<double>(stride_) * static_cast<double>(taps);
  }
  // The same as fill() for such outputs; value(i) is element i of the row.
  template <class Value, class Out>
  void fill_scalar(int64_t begin, int64_t end, const Value& value, Out* target) const {
    for (int64_t i = begin * stride_; i < end * stride_; ++i) {
      *target++ = to_element<Out>(Gather<Wide>::sum_of(gather_.table().element(i), value));
    }
  }

  // Outputs [begin, end) from the first element of their row.
  template <class Out>
  void fill(int64_t begin, int64_t end, const Wide* source, Stores stores,
            const PrefetchRange& next, Out* target) const {
    if (gathers()) {
      const int64_t first = begin * stride_,
                    prefetch_distance = stores == Stores::Prefetch ? kPrefetchDistance<Out> : 0;
      return gather_.sum(
          first, end * stride_,
          GatherRows<Wide, Out>{&source, 1, target - first, 0, prefetch_distance, next});
    }
    const Wide** slabs = slabs_ ? slabs_->template as<const Wide*>() : nullptr;
    for (int64_t o = begin; o < end; o += tile_) {
      const int64_t count = std::min(tile_, end - o), first = taps_.first[o];
      for (int64_t k = first; k < taps_.first[o + count]; ++k) {
        slabs[k - first] = source + taps_.index[k] * stride_;
      }
      const Sums<Wide> sums{count, taps_.first.data() + o, slabs, taps_.weight.data() + first};
      combine(taps_.width, sums, stride_, stores, target);
      target += count * stride_;
    }
  }

 private:
  const TapTable<Wide>& taps_;
  const int64_t stride_;
  const Gather<Wide>& gather_;
  int64_t tile_ = 0;
  std::optional<Scratch> slabs_;  // of a tile
};

}  // namespace myops::resize::MYOPS_ISA
