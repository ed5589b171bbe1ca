// Four taps: cubic. A source of its own, which is compiled only if it is used.
#pragma once

#include "resize/cuda/passes.h"

// The number of taps (0: any), and that which most elements have.
MYOPS_RESIZE_KERNELS(four_taps, resample, 4, 0)
