// The kernels for CUDA that deform_conv2d.cpp and deform_conv2d_backward.cpp describe.
#pragma once

#include "myops/context.h"

namespace myops::deform {

void forward_cuda(KernelContext& context);
void backward_cuda(KernelContext& context);

}  // namespace myops::deform
