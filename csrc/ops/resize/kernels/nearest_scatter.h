// Kernel "nearest_scatter": the gradient of nearest where every axis shrinks. An element of the
// result then has one tap, of weight 1, or none: elements are copied to their places, everything
// else is 0, and nothing is widened or added. It also copies the sums of plan/sparse_plan.h.
#pragma once

#include "../plan/plan.h"
#include "elements.h"

namespace myops::resize::MYOPS_ISA {

template <class T, class Wide>
class NearestScatter {
 public:
  // `plan`: of the gradient of nearest, or of places; all weights are 1.
  static bool supports(const Plan<Wide>& plan) {
    return std::all_of(plan.levels.begin(), plan.levels.end(),
                       [](const Level<Wide>& level) { return level.taps.widest <= 1; });
  }

  explicit NearestScatter(const Plan<Wide>& plan) : plan_(plan) {}

  // Writes the slabs [begin, end) of a level. As many as the L1 cache holds are zeroed together.
  void fill(size_t depth, int64_t begin, int64_t end, const T* source, T* target) const {
    const Level<Wide>& level = plan_.levels[depth];
    const int64_t size = level.out_volume, most = kZeroed / size;
    target -= begin * size;
    if (most == 0 && depth + 1 < plan_.levels.size()) {
      int64_t made = begin;
      each_tap(depth, begin, end, [&](int64_t place, int64_t index) {
        zero((place - made) * size, target + made * size);
        const Level<Wide>& next = plan_.levels[depth + 1];
        for (int64_t block = 0; block < level.blocks; ++block) {
          fill(depth + 1, 0, next.taps.output,
               source + index * level.in_volume + block * next.taps.input * next.in_volume,
               target + place * size + block * next.taps.output * next.out_volume);
        }
        made = place + 1;
      });
      return zero((end - made) * size, target + made * size);
    }
    for (int64_t at = begin; at < end;) {
      const int64_t stop = std::min(at + std::max<int64_t>(most, 1), end);
      zero((stop - at) * size, target + at * size);
      scatter(depth, at, stop, source, target);
      at = stop;
    }
  }

 private:
  static constexpr int64_t kZeroed = (32 << 10) / sizeof(T);

  static void zero(int64_t count, T* target) {
    if (count > 0) std::memset(static_cast<void*>(target), 0, bytes_of<T>(count));
  }

  // visit(place, index) for the outputs in [begin, end) that have a tap.
  template <class Visit>
  MYOPS_INLINE void each_tap(size_t depth, int64_t begin, int64_t end, const Visit& visit) const {
    const TapTable<Wide>& taps = plan_.levels[depth].taps;
    const int64_t* place = taps.filled.data();
    const int64_t* index = taps.index.data();
    for (int64_t k = taps.first[begin], last = taps.first[end]; k < last; ++k) {
      visit(place[k], index[k]);
    }
  }

  // Copies elements into the slabs [begin, end), which are zeroed, of a tensor at `target`.
  void scatter(size_t depth, int64_t begin, int64_t end, const T* source, T* target) const {
    const Level<Wide>& level = plan_.levels[depth];
    const int64_t in = level.in_volume, out = level.out_volume;
    if (depth + 1 == plan_.levels.size()) {
      if (in == 1) {
        return each_tap(depth, begin, end, [&](int64_t place, int64_t index) MYOPS_INLINED {
          target[place] = source[index];
        });
      }
      return each_tap(depth, begin, end, [&](int64_t place, int64_t index) MYOPS_INLINED {
        copy_run(source + index * in, in, target + place * in);
      });
    }
    const Level<Wide>& next = plan_.levels[depth + 1];
    if (depth + 2 == plan_.levels.size() && level.blocks == 1 && next.in_volume == 1) {
      return scatter_rows(begin, end, source, target);
    }
    each_tap(depth, begin, end, [&](int64_t place, int64_t index) {
      for (int64_t block = 0; block < level.blocks; ++block) {
        scatter(depth + 1, 0, next.taps.output,
                source + index * in + block * next.taps.input * next.in_volume,
                target + place * out + block * next.taps.output * next.out_volume);
      }
    });
  }

  // The last two levels, without a call for each row: it may have one element.
  void scatter_rows(int64_t begin, int64_t end, const T* source, T* target) const {
    const size_t depth = plan_.levels.size() - 2;
    const int64_t in = plan_.levels[depth].in_volume, out = plan_.levels[depth].out_volume;
    const TapTable<Wide>& taps = plan_.levels.back().taps;
    const int64_t *from = taps.index.data(), *to = taps.filled.data();
    const auto count = static_cast<int64_t>(taps.index.size());
    each_tap(depth, begin, end, [&](int64_t place, int64_t row) MYOPS_INLINED {
      const T* const x = source + row * in;
      T* const y = target + place * out;
      for (int64_t k = 0; k < count; ++k) y[to[k]] = x[from[k]];
    });
  }

  const Plan<Wide>& plan_;
};

}  // namespace myops::resize::MYOPS_ISA
