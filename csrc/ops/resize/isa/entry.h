// The two kernels that resize.cpp describes, for every instruction set (see myops/isa.h).
#pragma once

#include "myops/context.h"
#include "myops/isa.h"

namespace myops::resize {

// Inputs X, roi, scales, sizes; output Y.
MYOPS_FOR_EACH_ISA(void forward(KernelContext& context))

// Inputs grad, X (its shape alone), roi, scales, sizes; output grad_X.
MYOPS_FOR_EACH_ISA(void backward(KernelContext& context))

}  // namespace myops::resize
