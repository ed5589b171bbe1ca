// The kernels for CUDA that the ops of this folder describe.
#pragma once

#include "myops/context.h"

namespace myops::deform {

void forward_cuda(KernelContext& context);
void backward_cuda(KernelContext& context);
void double_backward_cuda(KernelContext& context);

}  // namespace myops::deform
