#include "dispatcher_schema.h"

namespace myops {
namespace {

template <class T>
std::string list_default(const std::vector<T>& values) {
  return str(values);
}

std::string attribute_argument(const Attribute& attribute) {
  const std::string& name = attribute.name;
  switch (attribute.type()) {
    case AttributeType::Bool:
      return str("bool ", name, "=", std::get<bool>(attribute.default_value) ? "True" : "False");
    case AttributeType::Int:
      return str("int ", name, "=", std::get<int64_t>(attribute.default_value));
    case AttributeType::Float: {
      const std::string number = str(std::get<double>(attribute.default_value));
      const bool integral = number.find_first_of(".en") == std::string::npos;
      return str("float ", name, "=", number, integral ? ".0" : "");
    }
    case AttributeType::String:
      return str("str ", name, "=\"", std::get<std::string>(attribute.default_value), "\"");
    case AttributeType::Ints: {
      const auto& numbers = std::get<std::vector<int64_t>>(attribute.default_value);
      if (may_be_none(attribute)) return str("int[]? ", name, "=None");
      return str("int[] ", name, "=", list_default(numbers));
    }
    case AttributeType::Floats:
      return str("float[] ", name, "=",
                 list_default(std::get<std::vector<double>>(attribute.default_value)));
  }
  throw std::bad_variant_access();
}

}  // namespace

bool may_be_none(const Attribute& attribute) {
  const auto* numbers = std::get_if<std::vector<int64_t>>(&attribute.default_value);
  return numbers != nullptr && numbers->empty();
}

std::vector<Overload> overloads(const Op& op) {
  bool values = false;
  for (const Input& input : op.inputs) values = values || input.has_values;
  std::vector<Overload> all{{false, false}};
  if (values) all.push_back({true, false});
  if (op.outputs.size() != 1 || op.writes()) return all;
  all.push_back({false, true});
  if (values) all.push_back({true, true});
  return all;
}

std::string overload_name(const Op& op, Overload overload) {
  if (overload.values) return op.name + (overload.out ? ".values_out" : ".values");
  return op.name + (overload.out ? ".out" : "");
}

bool integer_values(const Op& op, const Input& input) {
  return is_integer(op.dtypes(input.type).front());
}

std::string dispatcher_schema(const Op& op, Overload overload) {
  std::string text = overload_name(op, overload) + "(";
  const char* separator = "";
  char alias = 'a';
  for (const Input& input : op.inputs) {
    std::string type = input.is_variadic ? "Tensor[]" : "Tensor";
    if (input.is_written) type += str("(", std::string(1, alias++), "!)");
    if (overload.values && input.has_values) {
      type = integer_values(op, input) ? "SymInt[]" : "float[]";
    }
    text += str(separator, type, input.is_optional ? "? " : " ", input.name,
                input.is_optional ? "=None" : "");
    separator = ", ";
  }
  if (!op.attributes.empty() || overload.out) text += str(separator, "*");
  for (const Attribute& attribute : op.attributes) {
    text += ", " + attribute_argument(attribute);
  }
  if (overload.out) return text + ", Tensor(a!) out) -> ()";
  text += ") -> ";
  if (op.outputs.size() == 1) return text + "Tensor";
  text += "(";
  for (size_t i = 0; i < op.outputs.size(); ++i) text += i ? ", Tensor" : "Tensor";
  return text + ")";
}

}  // namespace myops
