// Any number, mostly at most two. A source of its own, which is compiled only if it is used.
#pragma once

#include "resize/cuda/passes.h"

// The number of taps (0: any), and that which most elements have.
MYOPS_RESIZE_KERNELS(two_or_more_taps, resample, 0, 2)
