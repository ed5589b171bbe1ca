// For calls of an op of functional_of(), which returns new tensors instead of writing into inputs.
#pragma once

#include "myops/op.h"

namespace myops {

// Copies the inputs that the kernel writes into the first outputs, and passes these to the kernel
// as its inputs; `outputs` then has those of the op that writes.
void replace_written(const Op& op, TensorPointers& inputs, Tensors& outputs, Tensors& copies);

}  // namespace myops
