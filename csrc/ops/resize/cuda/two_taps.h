// Two taps: linear. A source of its own, which is compiled only if it is used.
#pragma once

#include "resize/cuda/passes.h"

MYOPS_RESIZE_KERNEL(two_taps_one, resample, int32_t, 1, 2, 0, kOne)
MYOPS_RESIZE_KERNEL(two_taps_lanes, resample, int32_t, 1, 2, 0, kLanes)
MYOPS_RESIZE_KERNEL(two_taps, resample, int32_t, 1, 2, 0, kOther)
MYOPS_RESIZE_KERNEL(two_taps_plane_one, resample, int32_t, 2, 2, 0, kOne)
MYOPS_RESIZE_KERNEL(two_taps_plane_lanes, resample, int32_t, 2, 2, 0, kLanes)
MYOPS_RESIZE_KERNEL(two_taps_plane, resample, int32_t, 2, 2, 0, kOther)
