// The order in memory of the result of an op on single elements.
#pragma once

#include "myops/tensor.h"

namespace myops {

// The strides that PyTorch gives the result of such a function (its TensorIterator): axes are
// compared by their strides in the first input that has both and repeats neither.
Shape elementwise_strides(const TensorPointers& inputs, const Shape& shape);

}  // namespace myops
