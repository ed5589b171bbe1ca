// Checks of a tensor passed as out=, as torch's own functions make them, for hosts with and without
// Python.
//
// In Python, kernels above this one do the same for wrapper tensors and transformations too (see
// python/myops/_torch/out_overloads.py); torch then does not repeat these checks here.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include "myops/op.h"

namespace myops::torch_adapter {

// Whether autograd records what is computed with the tensor.
bool recorded(const torch::stable::Tensor& tensor);

// Refuses a tensor of inference mode outside of that mode; otherwise tells autograd that `out`, the
// argument `name`, is about to be overwritten, so that gradients which need its earlier values are
// refused.
void count_write(const Op& op, const std::string& name, torch::stable::Tensor& out);

}  // namespace myops::torch_adapter
