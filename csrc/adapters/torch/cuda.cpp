#include "cuda.h"

#include <torch/csrc/stable/macros.h>
#include <torch/csrc/stable/ops.h>

#include <string>
#include <utility>

#include "../../core/checks.h"
#include "../../core/out_argument.h"
#include "cuda_runtime.h"
#include "out_argument.h"
#include "scalar_types.h"

namespace myops::torch_adapter {
namespace {

using torch::stable::detail::from;

struct DeviceId {
  int32_t type, index;
  bool operator==(const DeviceId& other) const {
    return type == other.type && index == other.index;
  }
};

DeviceId device_of(const TorchTensor& tensor) {
  DeviceId device{};
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(tensor.get(), &device.type));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(tensor.get(), &device.index));
  return device;
}

// As in Python, such as "cuda:1".
std::string name_of(const DeviceId& device) {
  if (device.type == aoti_torch_device_type_cpu()) return "cpu";
  constexpr std::pair<int, const char*> kNames[] = {
      {1, "cuda"},  {6, "hip"},  {9, "xla"},   {12, "xpu"},          {13, "mps"},
      {14, "meta"}, {15, "hpu"}, {19, "mtia"}, {20, "privateuseone"}};
  std::string name = "device type " + std::to_string(device.type);
  for (const auto& [type, text] : kNames) {
    if (device.type == type) name = text;
  }
  return str(name, ":", device.index);
}

const TorchTensor* tensor_in(const Argument& argument) {
  return std::get_if<TorchTensor>(&argument);
}

// Makes every output of the schema, and writes into the caller's tensor.
class DispatchedRuntime final : public CudaRuntime {
 public:
  // `out`: the caller's tensor for the result, or null.
  DispatchedRuntime(const Op& op, const DeviceId& device, const Tensors& inputs, TorchTensor* out)
      : CudaRuntime(op, device.index, out != nullptr),
        device_(device),
        inputs_(inputs),
        out_(out) {}

  void leave_out(size_t output, DType dtype) override {
    (void)allocate(output, dtype, {0}, Layout::Contiguous);
  }

 private:
  Tensor accept(DType dtype, const Shape& shape, const Shape& strides) override {
    const DeviceId device = device_of(*out_);
    if (!(device == device_)) {
      fail(op().name, "out", "a tensor on " + name_of(device), "one on " + name_of(device_));
    }
    const ScalarType type = scalar_type_of(out_->get());
    const std::optional<DType> got = from_scalar_type(type);
    if (!got) {
      fail(op().name, "out", "dtype " + scalar_type_name(type),
           str(dtype_name(dtype), ", that of the result"));
    }
    Tensor out(out_->mutable_data_ptr(), *got, Shape(out_->sizes().begin(), out_->sizes().end()),
               Shape(out_->strides().begin(), out_->strides().end()));
    refuse_freed(op(), "out", *out_, out);
    Tensor accepted = accept_output(op(), inputs_, std::move(out), dtype, shape, strides);
    count_write(op(), "out", *out_);
    return accepted;
  }

  const DeviceId device_;
  const Tensors& inputs_;
  TorchTensor* out_;
};

// A tensor whose layout the kernel does not accept is replaced by a copy on its device.
Tensor view(const Op& op, const Input& input, TorchTensor& tensor, Budget& budget) {
  const auto describe = [&](const TorchTensor& value) {
    const ScalarType type = scalar_type_of(value.get());
    const std::optional<DType> dtype = from_scalar_type(type);
    if (!dtype) refuse_dtype(op, input, scalar_type_name(type));
    return Tensor(const_cast<void*>(value.const_data_ptr()), *dtype,
                  Shape(value.sizes().begin(), value.sizes().end()),
                  Shape(value.strides().begin(), value.strides().end()));
  };
  const Tensor seen = describe(tensor);
  if (input.access_mode != Access::ShapeOnly) refuse_freed(op, input.name, tensor, seen);
  if (input.accepts_layout(seen, true)) return seen;
  budget.take(op.name, input.name, str("a copy of shape ", seen.shape),
              byte_count(seen.shape, seen.dtype));
  tensor = dense_copy(input, tensor, seen);
  return describe(tensor);
}

Tensor view(const Op& op, const Input& input, Argument& argument, Budget& budget) {
  if (auto* tensor = std::get_if<TorchTensor>(&argument)) return view(op, input, *tensor, budget);
  if (auto* list = std::get_if<std::vector<double>>(&argument)) {
    return Tensor(list->data(), DType::Float64, {static_cast<int64_t>(list->size())});
  }
  if (auto* list = std::get_if<std::vector<int64_t>>(&argument)) {
    return Tensor(list->data(), DType::Int64, {static_cast<int64_t>(list->size())});
  }
  return Tensor();
}

// The index of the tensor whose device is that of the call; the number of inputs if there is none.
size_t first_tensor(const Op& op, const std::vector<Argument>& inputs) {
  size_t first = 0;
  while (first < inputs.size() &&
         (tensor_in(inputs[first]) == nullptr || is_read_early(op, first))) {
    ++first;
  }
  return first;
}

// Refuses tensors on another device than that of the call, which is the device of input `first`.
void check_devices(const Op& op, const std::vector<Argument>& inputs, size_t first,
                   const DeviceId& home) {
  const DeviceId cpu{aoti_torch_device_type_cpu(), -1};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TorchTensor* tensor = tensor_in(inputs[i]);
    if (tensor == nullptr) continue;
    const DeviceId device = device_of(*tensor);
    if (is_read_early(op, i)) {
      if (device.type == cpu.type) continue;
      fail(op.name, op.input_name(i), "a tensor on " + name_of(device),
           "one on the CPU, or Python numbers: they are read before the kernel runs");
    }
    if (device == home) continue;
    fail(op.name, op.input_name(i), "a tensor on " + name_of(device),
         str("one on ", name_of(home), ", where ", op.input_name(first), " is"));
  }
}

}  // namespace

bool is_elsewhere(const Op& op, const std::vector<Argument>& inputs) {
  const size_t first = first_tensor(op, inputs);
  return first < inputs.size() && !tensor_in(inputs[first])->is_cpu();
}

void call_elsewhere(const Op& op, Arguments& arguments, StableIValue* stack) {
  const size_t first = first_tensor(op, arguments.inputs);
  const DeviceId home = device_of(*tensor_in(arguments.inputs[first]));
  if (home.type != aoti_torch_device_type_cuda() || op.compute_cuda == nullptr) {
    const std::string input = op.input_name(first);
    fail(op.name, input, "a tensor on " + name_of(home),
         str("one on cpu", op.compute_cuda == nullptr ? "" : " or cuda",
             ": the op has no kernel for other devices. Call it with ", input,
             ".cpu() and the other tensors there, and move the result back"));
  }
  check_devices(op, arguments.inputs, first, home);
  const DeviceGuard guard(torch_cuda(op), home.index);
  std::optional<TorchTensor>& out = arguments.out;
  if (out && device_of(*out) == home) (void)out->mutable_data_ptr();  // copy-on-write, as in call()

  Tensors inputs;
  inputs.reserve(arguments.inputs.size());
  DispatchedRuntime runtime(op, home, inputs, out ? &*out : nullptr);
  for (size_t i = 0; i < arguments.inputs.size(); ++i) {
    inputs.push_back(view(op, op.declared(i), arguments.inputs[i], runtime.budget()));
  }
  Attributes attributes(op.attributes);
  for (size_t i = 0; i < arguments.attributes.size(); ++i) {
    attributes.set(i, std::move(arguments.attributes[i]));
  }
  invoke(cuda::on_device(op), inputs, attributes, runtime);
  for (size_t i = 0; i < runtime.made(); ++i) stack[i] = from(TorchTensor(runtime.take(i)));
}

}  // namespace myops::torch_adapter
