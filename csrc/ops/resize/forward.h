// The forward kernel: copies for nearest, weighted sums for the other modes.
#pragma once

#include "kernels.h"
#include "layout.h"
#include "resample.h"

namespace myops::resize::MYOPS_ISA {

// Nearest moves elements and never computes with them: NaN keeps its payload.
// Writes the slabs [begin, end) of a level; `outside` where there is no element to copy.
template <class T, class Wide>
void copy_nearest(const Plan<Wide>& plan, size_t depth, int64_t begin, int64_t end, T outside,
                  const T* source, T* target) {
  const Level<Wide>& level = plan.levels[depth];
  const Taps<Wide>& taps = level.taps;
  const bool last = depth + 1 == plan.levels.size();
  if (last && level.in_volume == 1 && !taps.has_empty) {
    const int64_t* index = taps.index.data() + begin;
    for (int64_t o = 0; o < end - begin; ++o) target[o] = source[index[o]];
    return;
  }
  int64_t previous = -1;
  for (int64_t o = begin; o < end; ++o, target += level.out_volume) {
    const int64_t index = taps.count(o) == 0 ? -1 : taps.index[taps.first[o]];
    const T* from = source + index * level.in_volume;
    if (index < 0) {
      std::fill(target, target + level.out_volume, outside);
    } else if (index == previous) {
      std::copy(target - level.out_volume, target, target);
    } else if (last) {
      std::copy(from, from + level.in_volume, target);
    } else {
      const Level<Wide>& next = plan.levels[depth + 1];
      for (int64_t block = 0; block < level.blocks; ++block) {
        copy_nearest(plan, depth + 1, 0, next.taps.output, outside,
                     from + block * next.taps.input * next.in_volume,
                     target + block * next.taps.output * next.out_volume);
      }
    }
    previous = index;
  }
}

// Writes the extrapolation value wherever any axis is outside the input. A later step, as
// weighted sums of it would not be exactly the value.
template <class T, class Wide>
void paint_outside(const Plan<Wide>& plan, size_t depth, int64_t begin, int64_t end, T outside,
                   T* target) {
  const Level<Wide>& level = plan.levels[depth];
  for (int64_t o = begin; o < end; ++o, target += level.out_volume) {
    if (level.taps.count(o) == 0) {
      std::fill(target, target + level.out_volume, outside);
    } else if (depth + 1 < plan.levels.size()) {
      const Level<Wide>& next = plan.levels[depth + 1];
      for (int64_t block = 0; block < level.blocks; ++block) {
        paint_outside(plan, depth + 1, 0, next.taps.output, outside,
                      target + block * next.taps.output * next.out_volume);
      }
    }
  }
}

template <class T, class Wide>
void forward_plan(const KernelContext& context, const Settings& settings, const Plan<Wide>& plan,
                  const T* source, T* target) {
  if (plan.levels.empty()) {
    copy_all(context, context.output(0).elements(), source, target);
    return;
  }
  const Level<Wide>& first = plan.levels.front();
  const T outside = to_element<T>(static_cast<Wide>(settings.extrapolation_value));
  if (settings.mode == Mode::Nearest) {
    for_each_run(context, plan, [&] {
      return [&](int64_t tensor, int64_t begin, int64_t end) {
        copy_nearest(plan, 0, begin, end, outside,
                     source + tensor * first.taps.input * first.in_volume,
                     target + (tensor * first.taps.output + begin) * first.out_volume);
      };
    });
    return;
  }
  resample(context, plan, source, target);
  if (settings.coordinates != Coordinates::TfCropAndResize) return;
  for_each_run(context, plan, [&] {
    return [&](int64_t tensor, int64_t begin, int64_t end) {
      paint_outside(plan, 0, begin, end, outside,
                    target + (tensor * first.taps.output + begin) * first.out_volume);
    };
  });
}

template <class T>
void forward_typed(const KernelContext& context, const Settings& settings,
                   const std::vector<Axis>& axes) {
  in_memory_order<T>(context, settings, axes, context.input(0), context.output(0),
                     [&](const T* source, T* target, bool channels_last) {
                       const auto plan =
                           make_plan<Accumulate<T>>(settings, axes, channels_last, false);
                       forward_plan(context, settings, plan, source, target);
                     });
}

void forward(KernelContext& context) {
  if (context.output(0).elements() == 0) return;
  const Request request(context, 0);
  const Geometry geometry = resolve(request);
  dispatch<Half, BFloat16, float, double, uint8_t>(context.output(0).dtype, [&](auto tag) {
    forward_typed<typename decltype(tag)::type>(context, request.settings, geometry.axes);
  });
}

}  // namespace myops::resize::MYOPS_ISA
