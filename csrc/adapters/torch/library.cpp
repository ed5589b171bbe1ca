// Registers every op with torch's dispatcher, for the CPU, through the LibTorch stable ABI only.
//
// The file knows torch and the description, and no op. Loading the library is enough:
// torch.ops.load_library in Python, dlopen in C++.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <array>
#include <memory>
#include <utility>

#include "../../core/dispatcher_schema.h"
#include "../../core/library_names.h"

namespace myops::torch_adapter {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::detail::from;
using torch::stable::detail::to;
using TorchTensor = torch::stable::Tensor;

constexpr std::array<ScalarType, kDTypeCount> kScalarTypes = {
    ScalarType::Half, ScalarType::BFloat16, ScalarType::Float, ScalarType::Double,
    ScalarType::Byte, ScalarType::Int,      ScalarType::Long};

DType from_torch(const Op& op, const Input& input, ScalarType type) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kScalarTypes[i] == type) return static_cast<DType>(i);
  }
  constexpr std::array<const char*, 16> names = {
      "uint8",     "int8",      "int16",      "int32", "int64", "float16", "float32", "float64",
      "complex32", "complex64", "complex128", "bool",  "qint8", "quint8",  "qint32",  "bfloat16"};
  const auto code = static_cast<size_t>(type);
  refuse_dtype(op, input, code < names.size() ? names[code] : str("number ", code, " of torch"));
}

class TorchRuntime final : public Runtime {
 public:
  Tensor allocate(size_t, DType dtype, const Shape& shape, Layout layout) override {
    const Shape strides = strides_for(shape, layout);
    const auto type = static_cast<size_t>(dtype);
    const std::array<int32_t, kDTypeCount> codes = {
        aoti_torch_dtype_float16(), aoti_torch_dtype_bfloat16(), aoti_torch_dtype_float32(),
        aoti_torch_dtype_float64(), aoti_torch_dtype_uint8(),    aoti_torch_dtype_int32(),
        aoti_torch_dtype_int64()};
    AtenTensorHandle handle = nullptr;
    STABLE_TORCH_ERROR_CODE_CHECK(
        aoti_torch_empty_strided(static_cast<int64_t>(shape.size()), shape.data(), strides.data(),
                                 codes[type], aoti_torch_device_type_cpu(), 0, &handle));
    outputs.emplace_back(handle);
    return Tensor(outputs.back().mutable_data_ptr(), dtype, shape, strides);
  }

  void run(int64_t count, Task task, void* argument) override {
    torch::stable::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) task(argument, i);
    });
  }

  std::vector<TorchTensor> outputs;
};

// Memory for the inputs of one call: tensors that had to be copied, lists that became tensors.
struct Holder {
  std::vector<TorchTensor> tensors;
  std::vector<std::vector<double>> reals;
  std::vector<std::vector<int64_t>> integers;
};

Tensor view(const Op& op, const Input& input, TorchTensor tensor, Holder& holder) {
  if (!tensor.is_cpu()) {
    fail(op.name, input.name, "a tensor on another device", "a tensor on the CPU");
  }
  const auto describe = [&](const TorchTensor& value) {
    return Tensor(const_cast<void*>(value.const_data_ptr()),
                  from_torch(op, input, value.scalar_type()),
                  Shape(value.sizes().begin(), value.sizes().end()),
                  Shape(value.strides().begin(), value.strides().end()));
  };
  Tensor seen = describe(tensor);
  const bool fits = input.access_mode == Access::Strided ||
                    input.access_mode == Access::ShapeOnly || seen.is(Layout::Contiguous) ||
                    (input.access_mode == Access::ChannelsLast && seen.is(Layout::ChannelsLast));
  if (!fits) {
    tensor = torch::stable::contiguous(tensor);
    seen = describe(tensor);
  }
  holder.tensors.push_back(std::move(tensor));
  return seen;
}

Tensor input_from(const Op& op, const Input& input, Overload overload, StableIValue value,
                  Holder& holder) {
  if (overload == Overload::Values && input.has_values) {
    if (integer_values(op, input)) {
      auto list = to<std::optional<std::vector<int64_t>>>(value);
      if (!list) return Tensor();
      holder.integers.push_back(std::move(*list));
      auto& kept = holder.integers.back();
      return Tensor(kept.data(), DType::Int64, {static_cast<int64_t>(kept.size())});
    }
    auto list = to<std::optional<std::vector<double>>>(value);
    if (!list) return Tensor();
    holder.reals.push_back(std::move(*list));
    auto& kept = holder.reals.back();
    return Tensor(kept.data(), DType::Float64, {static_cast<int64_t>(kept.size())});
  }
  if (!input.is_optional) return view(op, input, to<TorchTensor>(value), holder);
  auto tensor = to<std::optional<TorchTensor>>(value);
  return tensor ? view(op, input, std::move(*tensor), holder) : Tensor();
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
  Holder holder;
  // Views point into the holder's vectors, which must therefore never move.
  holder.reals.reserve(op.inputs.size());
  holder.integers.reserve(op.inputs.size());
  const size_t inputs_end = op.inputs.size();
  std::vector<Tensor> inputs;
  Attributes attributes(op.attributes);
  // The stack owns its values, so each one is taken before anything may throw.
  std::vector<AttributeValue> values;
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    values.push_back(attribute_from(op.attributes[i], stack[inputs_end + i]));
  }
  for (size_t i = 0; i < inputs_end; ++i) {
    inputs.push_back(input_from(op, op.inputs[i], overload, stack[i], holder));
  }
  for (size_t i = 0; i < values.size(); ++i) attributes.set(i, std::move(values[i]));

  TorchRuntime runtime;
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
  const std::string name = overload == Overload::Values ? op.name + ".values" : op.name;
  implement->impl(name.c_str(), kBoxed[index]);
}

void register_op(const Op& op) {
  register_overload(op, Overload::Tensors);
  if (has_values_overload(op)) register_overload(op, Overload::Values);
}

const bool registered = (for_each_op(register_op), true);

}  // namespace
}  // namespace myops::torch_adapter
