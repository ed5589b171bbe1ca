// The memory order of the result of an elementwise op.
#pragma once

#include "myops/tensor.h"

namespace myops {

// The strides that PyTorch gives the result of an elementwise function (its TensorIterator): axes
// are compared by their strides in the first input that has both axes and repeats neither.
Shape elementwise_strides(const TensorPointers& inputs, const Shape& shape);

}  // namespace myops
