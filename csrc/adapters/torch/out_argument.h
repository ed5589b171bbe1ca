// What torch's own functions with out= ask of that tensor, for hosts with and without Python.
//
// In Python, kernels above this one do the same for wrapper tensors and transformations too (see
// python/myops/_torch/out_overloads.py), and leave nothing to do here: what they did, torch does not do again.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include "myops/op.h"

namespace myops::torch_adapter {

// Whether autograd records what is computed with the tensor.
bool recorded(const torch::stable::Tensor& tensor);

// Refuses a tensor of inference mode outside of it; else lets autograd know that `out` is about to
// be overwritten, so that it refuses gradients that need what was there.
void count_write(const Op& op, torch::stable::Tensor& out);

}  // namespace myops::torch_adapter
