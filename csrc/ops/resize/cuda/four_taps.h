// Four taps: cubic. A source of its own, which is compiled only if it is used.
#pragma once

#include "resize/cuda/passes.h"

MYOPS_RESIZE_KERNEL(four_taps_one, resample, int32_t, 1, 4, 0, kOne)
MYOPS_RESIZE_KERNEL(four_taps_lanes, resample, int32_t, 1, 4, 0, kLanes)
MYOPS_RESIZE_KERNEL(four_taps, resample, int32_t, 1, 4, 0, kOther)
MYOPS_RESIZE_KERNEL(four_taps_plane_one, resample, int32_t, 2, 4, 0, kOne)
MYOPS_RESIZE_KERNEL(four_taps_plane_lanes, resample, int32_t, 2, 4, 0, kLanes)
MYOPS_RESIZE_KERNEL(four_taps_plane, resample, int32_t, 2, 4, 0, kOther)
