// Registers every op with torch's dispatcher, for the CPU, through the LibTorch stable ABI only.
//
// The file knows torch and the description, and no op. Loading the library is enough:
// torch.ops.load_library in Python, dlopen in C++.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "../../core/dispatcher_schema.h"
#include "../../core/given_output.h"
#include "../../core/library_names.h"
#include "services.h"

namespace myops::torch_adapter {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::detail::from;
using torch::stable::detail::to;
using TorchTensor = torch::stable::Tensor;

constexpr std::array<ScalarType, kDTypeCount> kScalarTypes = {
    ScalarType::Half, ScalarType::BFloat16, ScalarType::Float, ScalarType::Double,
    ScalarType::Byte, ScalarType::Int,      ScalarType::Long};

std::optional<DType> known(ScalarType type) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kScalarTypes[i] == type) return static_cast<DType>(i);
  }
  return std::nullopt;
}

DType from_torch(const Op& op, const Input& input, ScalarType type) {
  if (const auto dtype = known(type)) return *dtype;
  constexpr std::array<const char*, 16> names = {
      "uint8",     "int8",      "int16",      "int32", "int64", "float16", "float32", "float64",
      "complex32", "complex64", "complex128", "bool",  "qint8", "quint8",  "qint32",  "bfloat16"};
  const auto code = static_cast<size_t>(type);
  refuse_dtype(op, input, code < names.size() ? names[code] : str("number ", code, " of torch"));
}

class TorchRuntime final : public Runtime {
 public:
  // `out`: where the result goes, or null.
  TorchRuntime(const Op& op, const Tensors& inputs, const TorchTensor* out)
      : op_(op), inputs_(inputs), out_(out) {}

  Tensor allocate(size_t, DType dtype, const Shape& shape, Layout layout) override {
    if (out_ != nullptr) return given(dtype, shape, layout);
    const Shape strides = strides_for(shape, layout);
    outputs.emplace_back(new_tensor(dtype, shape, strides));
    return Tensor(outputs.back().mutable_data_ptr(), dtype, shape, strides);
  }

  void run(int64_t count, Task task, void* argument) override { run_tasks(count, task, argument); }

  std::vector<TorchTensor> outputs;

 private:
  Tensor given(DType dtype, const Shape& shape, Layout layout) const {
    if (!out_->is_cpu()) fail(op_.name, "out", "a tensor on another device", "one on the CPU");
    const std::optional<DType> got = known(out_->scalar_type());
    if (!got) {
      fail(op_.name, "out", "another dtype", str(dtype_name(dtype), ", that of the result"));
    }
    Tensor out(out_->mutable_data_ptr(), *got, Shape(out_->sizes().begin(), out_->sizes().end()),
               Shape(out_->strides().begin(), out_->strides().end()));
    return accept_output(op_, inputs_, std::move(out), dtype, shape, layout);
  }

  const Op& op_;
  const Tensors& inputs_;
  const TorchTensor* out_;
};

// One input as the caller gave it. It owns the memory that a view of it points to.
using Given = std::variant<std::monostate, TorchTensor, std::vector<double>, std::vector<int64_t>>;

template <class T>
Given given(std::optional<T> value) {
  return value ? Given(std::move(*value)) : Given();
}

Given take_input(const Op& op, const Input& input, Overload overload, StableIValue value) {
  if (overload.values && input.has_values) {
    if (!input.is_optional) {
      return integer_values(op, input) ? Given(to<std::vector<int64_t>>(value))
                                       : Given(to<std::vector<double>>(value));
    }
    return integer_values(op, input) ? given(to<std::optional<std::vector<int64_t>>>(value))
                                     : given(to<std::optional<std::vector<double>>>(value));
  }
  if (!input.is_optional) return to<TorchTensor>(value);
  return given(to<std::optional<TorchTensor>>(value));
}

// Replaces a tensor that the kernel cannot walk by a copy that it can.
Tensor view(const Op& op, const Input& input, TorchTensor& tensor, Budget& budget) {
  if (!tensor.is_cpu()) {
    fail(op.name, input.name, "a tensor on another device", "a tensor on the CPU");
  }
  const auto describe = [&](const TorchTensor& value) {
    return Tensor(const_cast<void*>(value.const_data_ptr()),
                  from_torch(op, input, value.scalar_type()),
                  Shape(value.sizes().begin(), value.sizes().end()),
                  Shape(value.strides().begin(), value.strides().end()));
  };
  const Tensor seen = describe(tensor);
  if (input.walks(seen)) return seen;
  budget.take(op.name, input.name, str("a copy of shape ", seen.shape),
              byte_count(seen.shape, seen.dtype));
  tensor = torch::stable::contiguous(tensor);
  return describe(tensor);
}

Tensor view(const Op& op, const Input& input, Given& given, Budget& budget) {
  if (auto* tensor = std::get_if<TorchTensor>(&given)) return view(op, input, *tensor, budget);
  if (auto* list = std::get_if<std::vector<double>>(&given)) {
    return Tensor(list->data(), DType::Float64, {static_cast<int64_t>(list->size())});
  }
  if (auto* list = std::get_if<std::vector<int64_t>>(&given)) {
    return Tensor(list->data(), DType::Int64, {static_cast<int64_t>(list->size())});
  }
  return Tensor();
}

AttributeValue attribute_from(const Attribute& attribute, StableIValue value) {
  if (may_be_none(attribute)) {
    return to<std::optional<std::vector<int64_t>>>(value).value_or(std::vector<int64_t>());
  }
  switch (attribute.type()) {
    case AttributeType::Bool:
      return to<bool>(value);
    case AttributeType::Int:
      return to<int64_t>(value);
    case AttributeType::Float:
      return to<double>(value);
    case AttributeType::String:
      return to<std::string>(value);
    case AttributeType::Ints:
      return to<std::vector<int64_t>>(value);
    case AttributeType::Floats:
      return to<std::vector<double>>(value);
  }
  throw std::bad_variant_access();
}

// One call: the stack holds the arguments in the schema's order and takes the results.
void call(const Op& op, Overload overload, StableIValue* stack) {
  // The stack owns its values, so all are taken before anything may refuse one of them.
  const size_t count = op.inputs.size();
  std::vector<Given> givens;
  givens.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    givens.push_back(take_input(op, op.inputs[i], overload, stack[i]));
  }
  std::vector<AttributeValue> values;
  values.reserve(op.attributes.size());
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    values.push_back(attribute_from(op.attributes[i], stack[count + i]));
  }

  std::optional<TorchTensor> out;
  if (overload.out) out = to<TorchTensor>(stack[count + op.attributes.size()]);
  // A tensor that shares memory until somebody writes gets its own now: an input that is the same
  // tensor must not be seen where it was before.
  if (out && out->is_cpu()) (void)out->mutable_data_ptr();

  Tensors inputs;
  inputs.reserve(count);
  TorchRuntime runtime(op, inputs, out ? &*out : nullptr);
  for (size_t i = 0; i < count; ++i) {
    inputs.push_back(view(op, op.inputs[i], givens[i], runtime.budget()));
  }
  Attributes attributes(op.attributes);
  for (size_t i = 0; i < values.size(); ++i) attributes.set(i, std::move(values[i]));
  invoke(op, inputs, attributes, runtime);
  for (size_t i = 0; i < runtime.outputs.size(); ++i) stack[i] = from(runtime.outputs[i]);
}

// torch wants a plain function for each kernel, and a function cannot carry the op along: so
// there is a numbered function for each place in a table.
struct Entry {
  std::unique_ptr<const Op> op;
  Overload overload;
};
constexpr size_t kMaxEntries = 128;

std::vector<Entry>& entries() {
  static auto* table = new std::vector<Entry>;  // kernels may run until the process ends
  return *table;
}

template <size_t index>
void boxed(StableIValue* stack, uint64_t, uint64_t) {
  const Entry& entry = entries()[index];
  try {
    call(*entry.op, entry.overload, stack);
  } catch (const Error& error) {
    // torch turns this type into RuntimeError; ours means nothing outside of this library.
    throw std::runtime_error(error.what());
  }
}

using Boxed = void (*)(StableIValue*, uint64_t, uint64_t);

template <size_t... index>
constexpr std::array<Boxed, sizeof...(index)> make_table(std::index_sequence<index...>) {
  return {boxed<index>...};
}

constexpr auto kBoxed = make_table(std::make_index_sequence<kMaxEntries>());

void register_overload(const Op& op, Overload overload) {
  using torch::stable::detail::StableLibrary;
  using Kind = StableLibrary::Kind;
  const size_t index = entries().size();
  if (index == kMaxEntries) {
    throw Error(str(op.name, ": one library holds at most ", kMaxEntries, " torch overloads"));
  }
  entries().push_back({std::make_unique<const Op>(op), overload});
  // Never destroyed: torch would unregister the op while Python may still hold it.
  auto* define = new StableLibrary(Kind::FRAGMENT, MYOPS_NAMESPACE, nullptr, __FILE__, __LINE__);
  define->def(dispatcher_schema(op, overload).c_str());
  auto* implement = new StableLibrary(Kind::IMPL, MYOPS_NAMESPACE, "CPU", __FILE__, __LINE__);
  implement->impl(overload_name(op, overload).c_str(), kBoxed[index]);
}

void register_op(const Op& op) {
  for (const Overload overload : overloads(op)) register_overload(op, overload);
}

const bool registered = (for_each_op(register_op), true);

}  // namespace
}  // namespace myops::torch_adapter
