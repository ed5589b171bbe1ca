// Registers every op with torch's dispatcher, using the LibTorch stable ABI only. What is on
// another device than the CPU goes to cuda.cpp.
//
// Nothing here depends on a particular op. Loading the library is enough: torch.ops.load_library in
// Python, dlopen in C++.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <optional>
#include <utility>
#include <variant>

#include "../../core/library_names.h"
#include "../../core/out_argument.h"
#include "cuda.h"
#include "out_argument.h"
#include "prepared.h"
#include "scalar_types.h"
#include "services.h"
#include "stack.h"

namespace myops::torch_adapter {
namespace {

using torch::stable::detail::from;

// torch's dispatch keys of tensors that are refused by the name of their argument, not by torch
// with a list of all its keys.
constexpr const char* kNotDense[] = {"SparseCPU",       "SparseCUDA",    "SparseCsrCPU",
                                     "SparseCsrCUDA",   "MkldnnCPU",     "QuantizedCPU",
                                     "NestedTensorCPU", "QuantizedCUDA", "NestedTensorCUDA"};

DType from_torch(const Op& op, const Input& input, ScalarType type) {
  if (const auto dtype = from_scalar_type(type)) return *dtype;
  refuse_dtype(op, input, scalar_type_name(type));
}

class TorchRuntime final : public Runtime {
 public:
  // `out`: the caller's tensor for the result, or null.
  TorchRuntime(const Op& op, const Tensors& inputs, TorchTensor* out)
      : op_(op), inputs_(inputs), out_(out) {}

  Tensor allocate(size_t output, DType dtype, const Shape& shape, Layout layout) override {
    return allocate_strided(output, dtype, shape, strides_for(shape, layout));
  }

  Tensor allocate_strided(size_t output, DType dtype, const Shape& shape,
                          const Shape& strides) override {
    refuse_strings(output, dtype);
    if (out_ != nullptr) return accept(dtype, shape, strides);
    if (output >= outputs.size()) outputs.resize(output + 1);
    TorchTensor& made = outputs[output].emplace(handle_of_new(output, dtype, shape, strides));
    return Tensor(made.mutable_data_ptr(), dtype, shape, strides);
  }

  // The schema has a tensor for every output; Python makes None of it.
  void leave_out(size_t output, DType dtype) override {
    (void)allocate(output, dtype, {0}, Layout::Contiguous);
  }

  void run(int64_t count, Task task, void* argument) override { run_tasks(count, task, argument); }
  const char* name() const override { return "torch"; }

  void begin_kernel() override {
    for (auto& [input, tensor] : written) count_write(op_, op_.inputs[input].name, tensor);
  }

  // Where the kernel wrote into copies, because it does not accept the layout of the input.
  void copy_back(const std::vector<Argument>& arguments) {
    for (auto& [input, tensor] : written) {
      const auto& used = std::get<TorchTensor>(arguments[input]);
      if (used.const_data_ptr() != tensor.const_data_ptr()) torch::stable::copy_(tensor, used);
    }
  }

  std::vector<std::optional<TorchTensor>> outputs;
  std::vector<std::pair<size_t, TorchTensor>> written;  // inputs, as the caller passed them

 private:
  void refuse_strings(size_t output, DType dtype) const {
    if (dtype != DType::String) return;
    fail(
        op_.name, op_.outputs[output].name, "dtype string",
        "one that PyTorch has: it has no tensors of strings. Call the op in NumPy or ONNX Runtime");
  }

  AtenTensorHandle handle_of_new(size_t output, DType dtype, const Shape& shape,
                                 const Shape& strides) const {
    try {
      return new_tensor(dtype, shape, strides);
    } catch (const std::bad_alloc&) {
      fail(op_.name, op_.outputs[output].name,
           str("shape ", shape, " (", byte_count(shape, dtype), " bytes)"),
           "a result that fits into the memory that is free");
    }
  }

  Tensor accept(DType dtype, const Shape& shape, const Shape& strides) {
    if (!out_->is_cpu()) fail(op_.name, "out", "a tensor on another device", "one on the CPU");
    const std::optional<DType> got = from_scalar_type(scalar_type_of(out_->get()));
    if (!got) {
      fail(op_.name, "out", "dtype " + scalar_type_name(scalar_type_of(out_->get())),
           str(dtype_name(dtype), ", that of the result"));
    }
    Tensor out(out_->mutable_data_ptr(), *got, Shape(out_->sizes().begin(), out_->sizes().end()),
               Shape(out_->strides().begin(), out_->strides().end()));
    refuse_freed(op_, "out", *out_, out);
    Tensor accepted = accept_output(op_, inputs_, std::move(out), dtype, shape, strides);
    // Last, because a call that is refused must not count as a write.
    count_write(op_, "out", *out_);
    return accepted;
  }

  const Op& op_;
  const Tensors& inputs_;
  TorchTensor* out_;
};

// Whether a tensor is one block of memory with sizes and strides. torch tells the layout of all but
// nested tensors, which have no sizes.
bool is_dense(const TorchTensor& tensor) {
  static const int32_t strided = aoti_torch_layout_strided();
  int32_t layout = strided;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_layout(tensor.get(), &layout));
  if (layout != strided) return false;
  try {
    (void)tensor.sizes();
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

void refuse_not_dense(const Op& op, const Arguments& arguments) {
  const auto refuse = [&](const std::string& name) {
    fail(op.name, name, "a tensor that is sparse, nested or in the layout of MKL-DNN",
         str("a dense one, such as ", name, ".to_dense()"));
  };
  for (size_t i = 0; i < arguments.inputs.size(); ++i) {
    const auto* tensor = std::get_if<TorchTensor>(&arguments.inputs[i]);
    if (tensor != nullptr && !is_dense(*tensor)) refuse(op.input_name(i));
  }
  if (arguments.out && !is_dense(*arguments.out)) refuse("out");
}

Tensor described(const Op& op, const Input& input, const TorchTensor& tensor) {
  return Tensor(const_cast<void*>(tensor.const_data_ptr()),
                from_torch(op, input, scalar_type_of(tensor.get())),
                Shape(tensor.sizes().begin(), tensor.sizes().end()),
                Shape(tensor.strides().begin(), tensor.strides().end()));
}

// Replaces a tensor whose layout the kernel does not accept by a copy.
Tensor view(const Op& op, const Input& input, TorchTensor& tensor, Budget& budget) {
  if (!tensor.is_cpu()) {
    fail(op.name, input.name, "a tensor on another device", "a tensor on the CPU");
  }
  const Tensor seen = described(op, input, tensor);
  if (input.access_mode != Access::ShapeOnly) refuse_freed(op, input.name, tensor, seen);
  if (input.accepts_layout(seen, false)) return seen;
  budget.take(op.name, input.name, str("a copy of shape ", seen.shape),
              byte_count(seen.shape, seen.dtype));
  tensor = dense_copy(input, tensor, seen);
  return described(op, input, tensor);
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

// The address of a tensor's memory, to see whether view() copies it; null where nothing asks.
const void* address(const Op& op, const Argument& argument) {
  const auto* tensor = op.prepared_inputs.empty() ? nullptr : std::get_if<TorchTensor>(&argument);
  return tensor == nullptr || !tensor->is_cpu() ? nullptr : tensor->const_data_ptr();
}

// As in torch's own functions with out=: the tensor that is overwritten has no gradient of its own.
void refuse_recorded(const Op& op, const std::vector<Argument>& inputs, const TorchTensor& out) {
  const char* expected = "none in a call with out=; make the call without out, or in no_grad mode";
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto* tensor = std::get_if<TorchTensor>(&inputs[i]);
    if (tensor == nullptr || !recorded(*tensor)) continue;
    fail(op.name, op.input_name(i), "a tensor that requires grad", expected);
  }
  if (recorded(out)) fail(op.name, "out", "a tensor that requires grad", expected);
}

// The result of Op::prepare, or null. Inputs that were copied for this call are not prepared.
Prepared prepared_for(const Op& op, const std::vector<Argument>& arguments, const Tensors& inputs,
                      const Attributes& attributes, const std::vector<bool>& is_copy) {
  SmallVector<const void*, 6> tensors;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* tensor = std::get_if<TorchTensor>(&arguments[i]);
    tensors.push_back(tensor == nullptr || is_copy[i] ? nullptr : tensor->get());
  }
  return find_prepared(op, inputs, attributes, tensors);
}

// The tensors that the op writes, as the caller passed them: the kernel may get copies.
void take_written(const Op& op, Arguments& arguments, TorchRuntime& runtime) {
  Tensors seen(arguments.inputs.size());
  for (size_t i = 0; i < arguments.inputs.size(); ++i) {
    auto* tensor = std::get_if<TorchTensor>(&arguments.inputs[i]);
    if (tensor == nullptr) continue;
    const Input& input = op.declared(i);
    if (recorded(*tensor)) {
      fail(op.name, op.input_name(i), "a tensor that requires grad",
           "none: the op writes into an input; make the call in no_grad mode, or call the op "
           "without the \"_\" in its name");
    }
    if (!tensor->is_cpu()) continue;  // view() refuses it
    if (input.is_written) {
      (void)tensor->mutable_data_ptr();  // as of `out` below
      runtime.written.emplace_back(i, *tensor);
    }
    seen[i] = described(op, input, *tensor);
  }
  TensorPointers pointers;
  for (const Tensor& tensor : seen) pointers.push_back(&tensor);
  refuse_shared(op, pointers);
}

// One call: the stack holds the arguments in the schema's order and takes the results.
void call(const Op& op, Overload overload, StableIValue* stack) {
  Arguments arguments(op, overload, stack);
  refuse_not_dense(op, arguments);
  std::optional<TorchTensor>& out = arguments.out;
  if (out) refuse_recorded(op, arguments.inputs, *out);
  if (is_elsewhere(op, arguments.inputs)) return call_elsewhere(op, arguments, stack);
  // A copy-on-write tensor gets memory of its own here: an input that is the same tensor must be
  // read at its new address.
  if (out && out->is_cpu()) (void)out->mutable_data_ptr();

  Tensors inputs;
  inputs.reserve(arguments.inputs.size());
  TorchRuntime runtime(op, inputs, out ? &*out : nullptr);
  std::vector<bool> is_copy;  // by input, for ops that prepare
  if (op.writes()) take_written(op, arguments, runtime);
  for (size_t i = 0; i < arguments.inputs.size(); ++i) {
    const void* before = address(op, arguments.inputs[i]);
    inputs.push_back(view(op, op.declared(i), arguments.inputs[i], runtime.budget()));
    if (!op.prepared_inputs.empty()) is_copy.push_back(before != inputs.back().data);
  }
  Attributes attributes(op.attributes);
  for (size_t i = 0; i < arguments.attributes.size(); ++i) {
    attributes.set(i, std::move(arguments.attributes[i]));
  }
  Prepared prepared;
  if (!op.prepared_inputs.empty()) {
    prepared = prepared_for(op, arguments.inputs, inputs, attributes, is_copy);
  }
  invoke(op, inputs, attributes, runtime, prepared.get());
  runtime.copy_back(arguments.inputs);
  for (size_t i = 0; i < runtime.outputs.size(); ++i) stack[i] = from(*runtime.outputs[i]);
}

// What an op's function for the dispatcher (StackEntry in op.h) gets as its target.
struct OverloadTarget {
  const Op op;
  const Overload overload;
};

void run_stack(const void* target, uint64_t* stack) {
  const auto& entry = *static_cast<const OverloadTarget*>(target);
  try {
    call(entry.op, entry.overload, stack);
  } catch (const Error& error) {
    // torch converts this type to RuntimeError; our Error is unknown outside of this library.
    throw std::runtime_error(error.what());
  }
}

void register_overload(const Op& op, Overload overload, const detail::StackEntry& entry) {
  using torch::stable::detail::StableLibrary;
  using Kind = StableLibrary::Kind;
  // Never destroyed: kernels may run until the process ends, and torch would unregister the op
  // while Python may still use it.
  *entry.target = new OverloadTarget{op, overload};
  // What torch's messages name: no path of this machine, so that objects are the same everywhere.
  constexpr const char* file = "myops/adapters/torch/library.cpp";
  const char* name = library_namespace();
  auto* define = new StableLibrary(Kind::FRAGMENT, name, nullptr, file, __LINE__);
  define->def(dispatcher_schema(op, overload).c_str());
  const std::string overloaded = overload_name(op, overload);
  auto* implement = new StableLibrary(Kind::IMPL, name, "CPU", file, __LINE__);
  implement->impl(overloaded.c_str(), entry.function);
  const auto refuse_or_run = [&](const char* key) {
    auto* library = new StableLibrary(Kind::IMPL, name, key, file, __LINE__);
    library->impl(overloaded.c_str(), entry.function);
  };
  for (const char* device : kOtherDevices) refuse_or_run(device);
  for (const char* key : kNotDense) refuse_or_run(key);
}

// An exception while a library is being loaded would end the process.
void register_op(const Op& op) {
  const std::vector<Overload> all = overloads(op);
  for (size_t i = 0; i < all.size(); ++i) {
    try {
      register_overload(op, all[i], op.stack_entries[i]);
    } catch (const std::exception&) {  // its text names only a line in torch's headers
      detail::add_fault(
          str(op.name, ": schema: got ", dispatcher_schema(op, all[i]),
              ", expected one that torch accepts, of a name that no other library has registered"));
    }
  }
}

const bool registered = (detail::run_stack = run_stack, for_each_op(register_op), true);

}  // namespace
}  // namespace myops::torch_adapter

// The mistakes in the descriptions, or an empty string, for the program that has loaded the
// library. C++ programs that do not ask find the op missing.
extern "C" __attribute__((visibility("default"))) const char* myops_faults() {
  static const std::string text = [] {
    try {
      myops::refuse_faults();
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string();
  }();
  return text.c_str();
}
