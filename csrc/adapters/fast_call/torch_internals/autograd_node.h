// The node that a recorded call adds to autograd's graph.
#pragma once

#include "internals.h"

namespace at {
class Tensor;
}

namespace myops::torch_internals {

// TorchInternals::observed and TorchInternals::record.
bool observed();
bool record(PyObject* inputs, void* result, const RecordedCall& call);

// Describes a plain tensor; false for any other. The arguments are those of TorchInternals::read.
bool describe(const at::Tensor& tensor, bool differentiable, bool written, DLTensor* described);

}  // namespace myops::torch_internals
