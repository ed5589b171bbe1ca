// The arguments of a call, taken from the stack that torch's dispatcher hands to a kernel.
//
// A value on the stack (tensor, string, list, optional) owns memory that the kernel has to free.
// torch's `to<T>` does so for tensors, but leaves a copy of every string to nobody, and lists and
// optionals where memory runs out; so the handles are taken one by one here.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <optional>
#include <variant>
#include <vector>

#include "../../core/dispatcher_schema.h"

namespace myops::torch_adapter {

using TorchTensor = torch::stable::Tensor;

// One input as the caller gave it. It owns the memory that a view of it points to.
using Argument =
    std::variant<std::monostate, TorchTensor, std::vector<double>, std::vector<int64_t>>;

struct Arguments {
  std::vector<Argument> inputs;
  std::vector<AttributeValue> attributes;
  std::optional<TorchTensor> out;

  // The stack has the order of the schema. Nothing on it is owned by anybody afterwards, also
  // where this throws.
  Arguments(const Op& op, Overload overload, const StableIValue* stack);
};

}  // namespace myops::torch_adapter
