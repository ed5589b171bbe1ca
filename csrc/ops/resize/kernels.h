// The two kernels that resize.cpp describes.
#pragma once

#include "myops/context.h"

namespace myops::resize {

// Inputs X, roi, scales, sizes; output Y.
void forward(KernelContext& context);

// Inputs grad, X (its shape alone), roi, scales, sizes; output grad_x.
void backward(KernelContext& context);

}  // namespace myops::resize
