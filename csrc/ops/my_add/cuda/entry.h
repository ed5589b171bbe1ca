// The kernel for CUDA that my_add.cpp describes.
#pragma once

#include "myops/context.h"

namespace myops::my_add {

void compute_cuda(KernelContext& context);

}  // namespace myops::my_add
