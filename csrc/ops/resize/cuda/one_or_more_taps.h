// Any number, mostly at most one. A source of its own, which is compiled only if it is used.
#pragma once

#include "resize/cuda/passes.h"

MYOPS_RESIZE_KERNEL(one_or_more_taps_one, resample, int32_t, 1, 0, 1, kOne)
MYOPS_RESIZE_KERNEL(one_or_more_taps_lanes, resample, int32_t, 1, 0, 1, kLanes)
MYOPS_RESIZE_KERNEL(one_or_more_taps, resample, int32_t, 1, 0, 1, kOther)
MYOPS_RESIZE_KERNEL(one_or_more_taps_plane_one, resample, int32_t, 2, 0, 1, kOne)
MYOPS_RESIZE_KERNEL(one_or_more_taps_plane_lanes, resample, int32_t, 2, 0, 1, kLanes)
MYOPS_RESIZE_KERNEL(one_or_more_taps_plane, resample, int32_t, 2, 0, 1, kOther)
