// Two taps: linear. A source of its own, which is compiled only if it is used.
#pragma once

#include "resize/cuda/passes.h"

// The number of taps (0: any), and that which most elements have.
MYOPS_RESIZE_KERNELS(two_taps, resample, 2, 0)
