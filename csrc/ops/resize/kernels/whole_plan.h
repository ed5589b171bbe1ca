// The kernels that compute all levels of a plan; elsewhere, resample.h combines one for each level.
#pragma once

#include "few_pixels.h"
#include "one_column.h"
#include "planes.h"
#include "small.h"

namespace myops::resize::MYOPS_ISA {

enum class WholePlan { None, OneColumn, FewPixels, Small, Planes };

inline const char* name_of(WholePlan kernel) {
  constexpr const char* kNames[] = {nullptr, "one_column", "few_pixels", "small", "planes"};
  return kNames[static_cast<int>(kernel)];
}

// Of a plan with at least one level.
template <class T, class Wide>
WholePlan whole_plan(const Plan<Wide>& plan) {
  const bool planes = Planes<T, Wide>::supports(plan) && kernel_enabled("resize.planes");
  // "planes" takes 0.54 to 0.9 of the time where rows of the result are that short.
  constexpr int64_t kShortRow = 12;
  const bool short_rows = plan.levels.back().taps.output <= kShortRow;
  if (!(planes && short_rows) && OneColumn<T, Wide>::supports(plan) &&
      kernel_enabled("resize.one_column")) {
    return WholePlan::OneColumn;
  }
  if (FewPixels<T, Wide>::supports(plan) && kernel_enabled("resize.few_pixels")) {
    return WholePlan::FewPixels;
  }
  if (Small<T, Wide>::supports(plan) && kernel_enabled("resize.small")) return WholePlan::Small;
  return planes ? WholePlan::Planes : WholePlan::None;
}

}  // namespace myops::resize::MYOPS_ISA
