// The forward kernel: copies for nearest, weighted sums for the other modes.
#pragma once

#include "../kernels/nearest.h"
#include "../kernels/resample.h"
#include "../plan/call_tables.h"
#include "entry.h"

namespace myops::resize::MYOPS_ISA {

// Writes the extrapolation value wherever any axis is outside the input. This is a separate step,
// because weighted sums of the value would not be exact.
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
void forward_plan(const KernelContext& context, const Tables<Wide>& tables, const T* source,
                  T* target) {
  const Plan<Wide>& plan = tables.plan;
  const Settings& settings = tables.settings;
  if (plan.levels.empty()) {
    copy_all(context, context.output(0).elements(), source, target);
    return;
  }
  const Level<Wide>& first = plan.levels.front();
  const T outside = to_element<T>(static_cast<Wide>(settings.extrapolation_value));
  if (settings.mode == Mode::Nearest) {
    const Nearest<T, Wide> nearest(tables, outside);
    if (context.reports()) {
      report(context, plan, [&](size_t depth) {
        if (depth + 1 < plan.levels.size()) return "nearest_slabs";
        return tables.byte_shuffle  ? "nearest_byte_shuffle"
               : tables.last.gather ? "nearest_gather"
                                    : "nearest_copy";
      });
    }
    for_each_run(context, plan, [&](int64_t tensor, int64_t begin, int64_t end) {
      nearest.fill(0, begin, end, source + tensor * first.taps.input * first.in_volume,
                   target + (tensor * first.taps.output + begin) * first.out_volume);
    });
    return;
  }
  resample(context, plan, tables.whole, tables.last, source, target);
  if (settings.coordinates != Coordinates::TfCropAndResize) return;
  for_each_run(context, plan, [&](int64_t tensor, int64_t begin, int64_t end) {
    paint_outside(plan, 0, begin, end, outside,
                  target + (tensor * first.taps.output + begin) * first.out_volume);
  });
}

void forward(KernelContext& context) {
  if (context.output(0).elements() == 0) return;
  dispatch<Half, BFloat16, float, double, uint8_t>(context.output(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto tables = tables_of<T, false>(context);
    in_memory_order<T>(
        context, tables->swapped, context.input(0), context.output(0),
        [&](const T* source, T* target) { forward_plan(context, *tables, source, target); });
  });
}

}  // namespace myops::resize::MYOPS_ISA
