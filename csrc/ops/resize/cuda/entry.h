// The kernels for CUDA that resize.cpp describes.
#pragma once

#include "myops/context.h"

namespace myops::resize {

void forward_cuda(KernelContext& context);
void backward_cuda(KernelContext& context);

}  // namespace myops::resize
