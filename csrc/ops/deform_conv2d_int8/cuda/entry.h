// The kernel for CUDA that the op of this folder describes.
#pragma once

#include "myops/context.h"

namespace myops::deform {

void forward_int8_cuda(KernelContext& context);

}  // namespace myops::deform
