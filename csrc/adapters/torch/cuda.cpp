#include "cuda.h"

#include <dlfcn.h>
#include <torch/csrc/stable/macros.h>
#include <torch/csrc/stable/ops.h>

#include <string>
#include <utility>

#include "../../core/out_argument.h"
#include "myops/cuda.h"
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

// The numbers that decide a shape, and the key of a random op, are read before the kernel runs.
bool is_read_early(const Op& op, size_t input) {
  return op.declared(input).has_values || (op.is_random && input + 1 == op.inputs.size());
}

// Functions of torch's CUDA library, which this library must not need.
struct TorchCuda {
  AOTITorchError (*get_current_stream)(int32_t device, void** stream);
  AOTITorchError (*create_guard)(int32_t device, void** guard);
  AOTITorchError (*delete_guard)(void* guard);
};

const TorchCuda& torch_cuda(const Op& op) {
  static const TorchCuda found = [] {
    void* library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    TorchCuda functions{};
    if (library == nullptr) return functions;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    };
    find(functions.get_current_stream, "aoti_torch_get_current_cuda_stream");
    find(functions.create_guard, "aoti_torch_create_cuda_guard");
    find(functions.delete_guard, "aoti_torch_delete_cuda_guard");
    return functions;
  }();
  if (found.get_current_stream == nullptr || found.create_guard == nullptr ||
      found.delete_guard == nullptr) {
    throw Error(str(op.name,
                    ": CUDA: got a PyTorch without CUDA, expected a build of PyTorch 2.10 or later "
                    "with libtorch_cuda.so"));
  }
  return found;
}

// Whether torch.matmul of float32 uses TF32 on CUDA (torch.backends.cuda.matmul.fp32_precision and
// allow_tf32, torch.set_float32_matmul_precision): deform_conv2d is a matrix product. The stable
// interface has no function for this, so torch's own function is looked up by its name or, in older
// versions, by another one. Without either, products are computed in float32, which is exact.
bool matmul_uses_tf32() {
  constexpr int kCuda = 1, kMatmul = 3, kTf32 = 2;  // enumerators of ATen/Context.h
  struct Functions {
    void* (*context)();
    int (*precision)(const void* context, int backend, int op);
    bool (*allows)(const void* context);
  };
  static const Functions found = [] {
    Functions functions{};
    void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) return functions;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    };
    find(functions.context, "_ZN2at13globalContextEv");
    find(functions.precision,
         "_ZNK2at7Context16float32PrecisionENS_14Float32BackendENS_9Float32OpE");
    find(functions.allows, "_ZNK2at7Context15allowTF32CuBLASEv");
    return functions;
  }();
  if (found.context == nullptr) return false;
  if (found.precision != nullptr) {
    return found.precision(found.context(), kCuda, kMatmul) == kTf32;
  }
  return found.allows != nullptr && found.allows(found.context());
}

// The device of the call is the current one as long as this exists.
class DeviceGuard {
 public:
  DeviceGuard(const TorchCuda& functions, int32_t index) : functions_(functions) {
    TORCH_ERROR_CODE_CHECK(functions.create_guard(index, &handle_));
  }
  ~DeviceGuard() { (void)functions_.delete_guard(handle_); }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  const TorchCuda& functions_;
  void* handle_ = nullptr;
};

// All memory is that of torch's allocator, for the current stream: memory that is freed is used
// again by work that is queued behind the work of this call.
class CudaRuntime final : public Runtime, public cuda::Device {
 public:
  // `out`: the caller's tensor for the result, or null.
  CudaRuntime(const Op& op, const DeviceId& device, const Tensors& inputs, TorchTensor* out)
      : op_(op), device_(device), inputs_(inputs), out_(out) {
    TORCH_ERROR_CODE_CHECK(torch_cuda(op).get_current_stream(device.index, &stream_));
  }

  Tensor allocate(size_t output, DType dtype, const Shape& shape, Layout layout) override {
    return allocate_strided(output, dtype, shape, strides_for(shape, layout));
  }

  Tensor allocate_strided(size_t output, DType dtype, const Shape& shape,
                          const Shape& strides) override {
    if (out_ != nullptr) return accept(dtype, shape, strides);
    if (output >= outputs.size()) outputs.resize(output + 1);
    TorchTensor& made = outputs[output].emplace(new_tensor(dtype, shape, strides));
    return Tensor(made.mutable_data_ptr(), dtype, shape, strides);
  }

  void leave_out(size_t output, DType dtype) override {
    (void)allocate(output, dtype, {0}, Layout::Contiguous);
  }

  void run(int64_t, Task, void*) override {
    throw Error(str(op_.name,
                    ": parallel_for: got a call on a CUDA device, expected none: it runs "
                    "on the CPU"));
  }
  const char* name() const override { return "torch cuda"; }

  cuda::Device* cuda_device() override { return this; }
  int index() const override { return device_.index; }
  void* stream() const override { return stream_; }
  void* scratch(size_t bytes) override {
    scratch_.push_back(new_tensor(DType::UInt8, {static_cast<int64_t>(bytes)}, {1}));
    return scratch_.back().mutable_data_ptr();
  }
  bool allow_tf32() const override { return matmul_uses_tf32(); }

  std::vector<std::optional<TorchTensor>> outputs;

 private:
  // Programs that try again with a smaller batch look for the text "CUDA out of memory."
  TorchTensor new_tensor(DType dtype, const Shape& shape, const Shape& strides) const {
    AtenTensorHandle tensor = nullptr;
    if (aoti_torch_empty_strided(static_cast<int64_t>(shape.size()), shape.data(), strides.data(),
                                 dtype_code(dtype), device_.type, device_.index, &tensor) != 0) {
      throw Error(str(op_.name, ": CUDA: got no memory from torch for ", dtype_name(dtype),
                      " of shape ", shape, " on ", name_of(device_), ", expected ",
                      byte_count(shape, dtype),
                      " bytes: CUDA out of memory. What torch's allocator "
                      "says is on the standard error"));
    }
    return TorchTensor(tensor);
  }

  Tensor accept(DType dtype, const Shape& shape, const Shape& strides) {
    const DeviceId device = device_of(*out_);
    if (!(device == device_)) {
      fail(op_.name, "out", "a tensor on " + name_of(device), "one on " + name_of(device_));
    }
    const ScalarType type = scalar_type_of(out_->get());
    const std::optional<DType> got = from_scalar_type(type);
    if (!got) {
      fail(op_.name, "out", "dtype " + scalar_type_name(type),
           str(dtype_name(dtype), ", that of the result"));
    }
    Tensor out(out_->mutable_data_ptr(), *got, Shape(out_->sizes().begin(), out_->sizes().end()),
               Shape(out_->strides().begin(), out_->strides().end()));
    Tensor accepted = accept_output(op_, inputs_, std::move(out), dtype, shape, strides);
    count_write(op_, "out", *out_);
    return accepted;
  }

  const Op& op_;
  const DeviceId device_;
  const Tensors& inputs_;
  TorchTensor* out_;
  void* stream_ = nullptr;
  std::vector<TorchTensor> scratch_;
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
  if (input.accepts_layout(seen)) return seen;
  budget.take(op.name, input.name, str("a copy of shape ", seen.shape),
              byte_count(seen.shape, seen.dtype));
  tensor = torch::stable::contiguous(tensor);
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
  CudaRuntime runtime(op, home, inputs, out ? &*out : nullptr);
  for (size_t i = 0; i < arguments.inputs.size(); ++i) {
    inputs.push_back(view(op, op.declared(i), arguments.inputs[i], runtime.budget()));
  }
  Attributes attributes(op.attributes);
  for (size_t i = 0; i < arguments.attributes.size(); ++i) {
    attributes.set(i, std::move(arguments.attributes[i]));
  }
  invoke(cuda::on_device(op), inputs, attributes, runtime);
  for (size_t i = 0; i < runtime.outputs.size(); ++i) stack[i] = from(*runtime.outputs[i]);
}

}  // namespace myops::torch_adapter
