#include "stack.h"

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/stableivalue_conversions.h>

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "scalar_types.h"

namespace myops::torch_adapter {
namespace {

using torch::stable::detail::to;

TorchTensor take_tensor(StableIValue value) { return TorchTensor(to<AtenTensorHandle>(value)); }

std::string take_string(StableIValue value) {
  struct Delete {
    void operator()(StringHandle string) const { (void)torch_delete_string(string); }
  };
  const std::unique_ptr<StringOpaque, Delete> string(to<StringHandle>(value));
  size_t length = 0;
  const char* data = nullptr;
  TORCH_ERROR_CODE_CHECK(torch_string_length(string.get(), &length));
  TORCH_ERROR_CODE_CHECK(torch_string_c_str(string.get(), &data));
  return std::string(data, length);
}

template <class Number>
std::vector<Number> take_list(StableIValue value) {
  struct Delete {
    void operator()(StableListHandle list) const { (void)torch_delete_list(list); }
  };
  const std::unique_ptr<StableListOpaque, Delete> list(to<StableListHandle>(value));
  size_t size = 0;
  TORCH_ERROR_CODE_CHECK(torch_list_size(list.get(), &size));
  std::vector<Number> numbers(size);
  for (size_t i = 0; i < size; ++i) {
    StableIValue item;
    TORCH_ERROR_CODE_CHECK(torch_list_get_item(list.get(), i, &item));
    numbers[i] = to<Number>(item);
  }
  return numbers;
}

// An optional is a pointer to the value, or null.
template <class Take>
auto take_optional(StableIValue value, const Take& take)
    -> std::optional<decltype(take(StableIValue()))> {
  const std::unique_ptr<StableIValue> inner(to<StableIValue*>(value));
  if (inner == nullptr) return std::nullopt;
  return take(*inner);
}

template <class Take>
Argument take_value(const Input& input, StableIValue value, const Take& take) {
  if (!input.is_optional) return take(value);
  auto taken = take_optional(value, take);
  return taken ? Argument(std::move(*taken)) : Argument();
}

Argument take_input(const Op& op, const Input& input, Overload overload, StableIValue value) {
  if (!overload.values || !input.has_values) return take_value(input, value, take_tensor);
  if (integer_values(op, input)) return take_value(input, value, take_list<int64_t>);
  return take_value(input, value, take_list<double>);
}

// A list whose items own memory, which the list does not free: each is taken before anything can
// throw.
template <class Take>
void take_items(StableIValue value, const Take& take) {
  struct Delete {
    void operator()(StableListHandle list) const { (void)torch_delete_list(list); }
  };
  const std::unique_ptr<StableListOpaque, Delete> list(to<StableListHandle>(value));
  size_t size = 0;
  TORCH_ERROR_CODE_CHECK(torch_list_size(list.get(), &size));
  for (size_t i = 0; i < size; ++i) {
    StableIValue item;
    TORCH_ERROR_CODE_CHECK(torch_list_get_item(list.get(), i, &item));
    take(item);
  }
}

std::vector<std::string> take_strings(StableIValue value) {
  std::vector<std::string> strings;
  take_items(value, [&](StableIValue item) { strings.push_back(take_string(item)); });
  return strings;
}

void take_tensors(StableIValue value, std::vector<Argument>& into) {
  take_items(value, [&](StableIValue item) { into.emplace_back(take_tensor(item)); });
}

AttributeValue take_given(const Attribute& attribute, StableIValue value) {
  switch (attribute.type()) {
    case AttributeType::Bool:
      return to<bool>(value);
    case AttributeType::Int:
      return to<int64_t>(value);
    case AttributeType::Float:
    case AttributeType::Double:
      return to<double>(value);
    case AttributeType::String:
      return take_string(value);
    case AttributeType::Ints:
      return take_list<int64_t>(value);
    case AttributeType::Floats:
    case AttributeType::Doubles:
      return take_list<double>(value);
    case AttributeType::Strings:
      return take_strings(value);
  }
  throw std::bad_variant_access();
}

AttributeValue take_attribute(const Attribute& attribute, StableIValue value) {
  const auto take = [&](StableIValue given) { return take_given(attribute, given); };
  if (!may_be_none(attribute)) return take(value);
  auto taken = take_optional(value, take);
  if (taken) return std::move(*taken);
  return attribute.is_optional ? AttributeValue(std::monostate()) : attribute.default_value;
}

}  // namespace

Arguments::Arguments(const Op& op, Overload overload, const StableIValue* stack) {
  inputs.reserve(op.inputs.size());
  attributes.resize(op.attributes.size());
  // The first exception is rethrown when all values are taken: values that are not taken would
  // never be freed.
  std::exception_ptr failure;
  const auto take = [&](const auto& function) {
    try {
      function(*stack++);
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  };
  for (const Input& input : op.inputs) {
    take([&](StableIValue value) {
      if (input.is_variadic) {
        take_tensors(value, inputs);
      } else {
        inputs.push_back(take_input(op, input, overload, value));
      }
    });
  }
  for (size_t i = 0; i < attributes.size(); ++i) {
    take([&](StableIValue value) { attributes[i] = take_attribute(op.attributes[i], value); });
  }
  if (overload.out) take([&](StableIValue value) { out = take_tensor(value); });
  if (failure) std::rethrow_exception(failure);
}

void refuse_freed(const Op& op, const std::string& argument, const TorchTensor& tensor,
                  const Tensor& seen) {
  int64_t bytes = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_storage_size(tensor.get(), &bytes));
  if (bytes > 0 || seen.elements() == 0) return;
  fail(op.name, argument, str("a tensor of shape ", seen.shape, " whose memory has been freed"),
       "one with its elements: untyped_storage().resize_(0) frees them, and resize_() to the size "
       "before allocates them again");
}

TorchTensor dense_copy(const Input& input, const TorchTensor& tensor, const Tensor& seen) {
  using Format = torch::headeronly::MemoryFormat;
  const bool follows =
      input.access_mode == Access::ChannelsLast || input.access_mode == Access::StridedOnCpu;
  if (!follows || !seen.channels_last()) return torch::stable::contiguous(tensor);
  const Format format = seen.rank() == 4 ? Format::ChannelsLast : Format::ChannelsLast3d;
  return torch::stable::contiguous(tensor, format);
}

}  // namespace myops::torch_adapter
