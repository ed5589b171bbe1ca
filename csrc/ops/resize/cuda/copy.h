// Nearest. A source of its own, which is compiled only if it is used.
#pragma once

#include "resize/cuda/passes.h"

MYOPS_RESIZE_KERNEL(copy_nearest_one, copy, int32_t, 1, kOne)
MYOPS_RESIZE_KERNEL(copy_nearest_lanes, copy, int32_t, 1, kLanes)
MYOPS_RESIZE_KERNEL(copy_nearest, copy, int32_t, 1, kOther)
MYOPS_RESIZE_KERNEL(copy_nearest_plane_one, copy, int32_t, 2, kOne)
MYOPS_RESIZE_KERNEL(copy_nearest_plane_lanes, copy, int32_t, 2, kLanes)
MYOPS_RESIZE_KERNEL(copy_nearest_plane, copy, int32_t, 2, kOther)
