// A result that goes into a tensor of the caller's.
#pragma once

#include "myops/op.h"

namespace myops {

// `out` as the kernel writes it. Refuses one of another dtype, shape or layout than the result, or
// one that shares memory with an input.
Tensor accept_output(const Op& op, const Tensors& inputs, Tensor out, DType dtype,
                     const Shape& shape, Layout layout);

}  // namespace myops
