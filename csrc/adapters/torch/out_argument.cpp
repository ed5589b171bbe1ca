#include "out_argument.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include "services.h"

namespace myops::torch_adapter {
namespace {

using torch::stable::detail::from;
using torch::stable::detail::to;
using TorchTensor = torch::stable::Tensor;

template <class Result>
Result ask(const char* name, const TorchTensor& tensor) {
  StableIValue stack = from(tensor);
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(name, "", &stack, TORCH_ABI_VERSION));
  return to<Result>(stack);
}

bool inference_mode() {
  const TorchTensor made(new_tensor(DType::Float32, {0}, {1}));
  return ask<bool>("aten::is_inference", made);
}

}  // namespace

bool recorded(const TorchTensor& tensor) {
  // The stable ABI has no requires_grad; a view of the tensor shows it.
  return aoti_torch_grad_mode_is_enabled() &&
         !ask<bool>("aten::is_leaf", ask<TorchTensor>("aten::alias", tensor));
}

void count_write(const Op& op, const std::string& name, TorchTensor& out) {
  if (ask<bool>("aten::is_inference", out) && !inference_mode()) {
    fail(op.name, name, "a tensor of inference mode",
         "a normal one outside of that mode; clone it first");
  }
  // Copying a tensor to itself increments its version and copies nothing.
  (void)torch::stable::copy_(out, out);
}

}  // namespace myops::torch_adapter
