// The arguments of a call, taken from the stack that torch's dispatcher passes to a kernel.
//
// A value on the stack (tensor, string, list, optional) owns memory that the kernel has to free.
// torch's `to<T>` does so for tensors, but leaks a copy of every string, and lists and optionals if
// memory runs out; so the handles are taken one by one here.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "../../core/dispatcher_schema.h"

namespace myops::torch_adapter {

using TorchTensor = torch::stable::Tensor;

// One input as the caller passed it. It owns the memory that a view of it points to.
using Argument =
    std::variant<std::monostate, TorchTensor, std::vector<double>, std::vector<int64_t>>;

struct Arguments {
  std::vector<Argument> inputs;  // every tensor of a list
  std::vector<AttributeValue> attributes;
  std::optional<TorchTensor> out;

  // The stack has the order of the schema. All its values have been taken afterwards, also if this
  // throws.
  Arguments(const Op& op, Overload overload, const StableIValue* stack);
};

// Refuses a tensor, `seen` by the kernel, whose storage has been freed; sizes and strides remain.
void refuse_freed(const Op& op, const std::string& argument, const TorchTensor& tensor,
                  const Tensor& seen);

// A copy without gaps of a tensor, `seen` by the kernel, whose layout the input does not accept. It
// is channels_last if the input's results then are.
TorchTensor dense_copy(const Input& input, const TorchTensor& tensor, const Tensor& seen);

}  // namespace myops::torch_adapter
