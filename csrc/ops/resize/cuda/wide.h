// Every kernel with indices of 64 bits, for tensors of 2^31 elements and more, and what paints the
// extrapolation value. A source of its own, which is compiled only if it is used.
#pragma once

#include "resize/cuda/passes.h"

namespace myops {

template <class T, class A>
void make_taps_wide(const TapArguments& arguments, int64_t i) {
  resize_kernels::make_any_taps<A, int64_t>(arguments, i);
}
template <class T, class A>
void list_readers_wide(const TapArguments& arguments, int64_t i) {
  resize_kernels::list_any_readers<A, int64_t>(arguments, i);
}

}  // namespace myops

MYOPS_KERNEL(make_taps_wide, TapArguments, make_taps_wide)
MYOPS_KERNEL(list_readers_wide, TapArguments, list_readers_wide)
MYOPS_RESIZE_KERNEL(any_taps_wide, resample, int64_t, 1, 0, 0, kOther)
MYOPS_RESIZE_KERNEL(copy_nearest_wide, copy, int64_t, 1, kOther)
MYOPS_RESIZE_KERNEL(paint_outside, paint, int32_t)
MYOPS_RESIZE_KERNEL(paint_outside_wide, paint, int64_t)
