// Checks of a tensor that the caller passes for the result (out=).
#pragma once

#include "myops/op.h"

namespace myops {

// Whether both use some of the same memory.
bool share_memory(const Tensor& one, const Tensor& other);

// Refuses a tensor to write into in which elements share memory, as after expand().
void refuse_expanded(const Op& op, const std::string& argument, const Shape& shape,
                     const Shape& strides);

// Refuses inputs of which the op writes one and reads, or writes, the same memory as another.
void refuse_shared(const Op& op, const TensorPointers& inputs);

// `out` as the kernel writes it. Refuses a tensor whose dtype, shape or strides differ from the
// result's, or which shares memory with an input. The result of an elementwise op may be contiguous
// too.
Tensor accept_output(const Op& op, const Tensors& inputs, Tensor out, DType dtype,
                     const Shape& shape, const Shape& strides);

}  // namespace myops
