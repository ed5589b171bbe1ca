// Attributes of a node, as ONNX Runtime stores them: ints and floats, strings, lists of both.
#include "node_attributes.h"

#include <exception>
#include <memory>
#include <utility>

#include "status.h"
#include "strings.h"
#include "typed_op.h"
#include "values.h"

namespace myops::ort {
namespace {

constexpr size_t kMaxLength = size_t{1} << 20;  // elements of a list, characters of a string

const char* type_name(AttributeType type) {
  constexpr const char* names[] = {"an int (0 or 1)",
                                   "an int",
                                   "a float",
                                   "a string",
                                   "a list of ints",
                                   "a list of floats",
                                   "a list of strings",
                                   "a tensor of one float64, without axes",
                                   "a list of float64, as a tensor with one axis"};
  return names[static_cast<int>(type)];
}

// Thrown for an attribute that shape inference cannot read.
struct NotYet : std::exception {
  const char* what() const noexcept override { return "an attribute that is not read yet"; }
};

[[noreturn]] void wrong_type(const Op& op, const Attribute& attribute, const Found& found) {
  const bool ints = found.integers && !found.integers->empty();
  const bool floats = found.reals && !found.reals->empty();
  const char* got = found.integer ? "an int"
                    : found.real  ? "a float"
                    : found.text  ? "a string"
                    : ints        ? "a list of ints"
                    : floats      ? "a list of floats"
                    : found.other ? found.other
                    : found.texts ? "a list of strings"
                                  : kSomethingElse;
  fail(op.name, attribute.name, got, type_name(attribute.type()));
}

bool absent(const Found& found) {
  return !found.integer && !found.real && !found.text && !found.integers && !found.reals &&
         !found.texts && !found.exact && !found.exacts;
}

// ONNX has no boolean attributes: 0 and 1 stand for them.
bool truth(const Op& op, const Attribute& attribute, int64_t value) {
  if (value != 0 && value != 1) fail(op.name, attribute.name, str(value), "0 or 1");
  return value == 1;
}

AttributeValue convert(const Op& op, const Attribute& attribute, Found found) {
  const bool only_ints = !found.reals || found.reals->empty();
  const bool only_floats = !found.integers || found.integers->empty();
  switch (attribute.type()) {
    case AttributeType::Bool:
      if (found.integer) return truth(op, attribute, *found.integer);
      break;
    case AttributeType::Int:
      if (found.integer) return *found.integer;
      break;
    case AttributeType::Float:
      if (found.real) return static_cast<double>(*found.real);
      break;
    case AttributeType::String:
      if (found.text) return std::move(*found.text);
      break;
    case AttributeType::Ints:
      if (found.integers && only_ints && !found.other) return std::move(*found.integers);
      break;
    case AttributeType::Floats:
      if (found.reals && only_floats && !found.other) {
        return std::vector<double>(found.reals->begin(), found.reals->end());
      }
      break;
    case AttributeType::Strings:
      if (found.texts && !found.integer && !found.real && !found.text && only_ints && only_floats &&
          !found.other) {
        return std::move(*found.texts);
      }
      break;
    case AttributeType::Double:
      if (found.exact) return *found.exact;
      if (found.real) return static_cast<double>(*found.real);  // written as a float once
      break;
    case AttributeType::Doubles:
      if (found.exacts) return std::move(*found.exacts);
      if (found.reals && only_floats && !found.other) {
        return std::vector<double>(found.reals->begin(), found.reals->end());
      }
      break;
  }
  wrong_type(op, attribute, found);
}

}  // namespace

void check_length(const Op& op, const Attribute& attribute, size_t length, const char* unit) {
  if (length > kMaxLength) {
    fail(op.name, attribute.name, str(length, " ", unit), str("at most ", kMaxLength));
  }
}

bool in_a_tensor(AttributeType type) {
  return type == AttributeType::Double || type == AttributeType::Doubles;
}

void read_tensor(const Op& op, const Attribute& attribute, const Api& api, Value* value,
                 Found& found) {
  const std::unique_ptr<Value, decltype(api.ReleaseValue)> owner(value, api.ReleaseValue);
  const auto [dtype, shape] = describe(api, value);
  const bool texts = attribute.type() == AttributeType::Strings;
  const size_t rank = attribute.type() == AttributeType::Double ? 0 : 1;
  if (dtype != (texts ? DType::String : DType::Float64) || shape.size() != rank) {
    fail(op.name, attribute.name, str("a tensor of ", dtype_name(dtype), " of shape ", shape),
         type_name(attribute.type()));
  }
  const int64_t count = element_count(shape);
  check_length(op, attribute, static_cast<size_t>(count), "elements");
  if (texts) {
    Strings strings;
    Budget budget;
    const auto* read = static_cast<const std::string*>(
        strings.read(op, attribute.name, api, value, count, budget));
    found.texts.emplace(read, read + count);
    return;
  }
  void* data = nullptr;
  check(api, api.GetTensorMutableData(value, &data));
  const auto* numbers = static_cast<const double*>(data);
  if (rank == 0) {
    found.exact = *numbers;
  } else {
    found.exacts.emplace(numbers, numbers + count);
  }
}

Attributes read_attributes(const Op& op, const std::function<Found(size_t)>& find) {
  Attributes attributes(op.attributes);
  bool unread = false;
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    Found found = find(i);
    if (found.unread) {
      unread = true;
      attributes.set(i, op.attributes[i].default_value);
    } else if (!absent(found)) {
      attributes.set(i, convert(op, op.attributes[i], std::move(found)));
    }
  }
  // Behind the loop, as another one may be of a kind that has to be noted. A rule that is text
  // reads ints only.
  if (unread && op.shape_text.empty()) throw NotYet();
  check_attributes(op, attributes);
  return attributes;
}

Op version_probe(const Op& op) {
  return Op(op.name).attribute(
      Attribute{kVersion, int64_t{1}, "The version of the op that the node means."}.at_least(1));
}

}  // namespace myops::ort
