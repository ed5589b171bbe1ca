#include "dispatcher_schema.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace myops {
namespace {

std::string type_of(const Attribute& attribute) {
  switch (attribute.type()) {
    case AttributeType::Bool:
      return "bool";
    case AttributeType::Int:
      return "SymInt";
    case AttributeType::Float:
    case AttributeType::Double:
      return "float";
    case AttributeType::String:
      return "str";
    case AttributeType::Ints:
      return "int[]";
    case AttributeType::Floats:
    case AttributeType::Doubles:
      return "float[]";
    case AttributeType::Strings:
      return "str[]";
  }
  throw std::bad_variant_access();
}

// Exact, unlike str(), which writes only as many digits as a 32-bit float needs.
std::string number_of(double value) {
  char text[40];
  for (const int digits : {9, 15, 16, 17}) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  return text;
}

// A string literal as torch's parser of schemas reads it.
std::string literal_of(const std::string& text) {
  std::string result = "\"";
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7f || character == '"' || character == '\\') {
      char escaped[5];
      std::snprintf(escaped, sizeof escaped, "\\%03o", static_cast<unsigned>(byte));
      result += escaped;
    } else {
      result += character;
    }
  }
  return result + "\"";
}

// The parser reads numbers by std::stod(), which refuses those beyond the normal ones.
bool has_literal(double number) {
  return number == 0 || (std::isfinite(number) && std::abs(number) >= DBL_MIN);
}

std::string default_of(const AttributeValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "True" : "False";
  if (const auto* number = std::get_if<int64_t>(&value)) return str(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return literal_of(*text);
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(&value)) return str(*numbers);
  if (const auto* numbers = std::get_if<std::vector<double>>(&value)) {
    std::vector<std::string> texts;
    for (const double number : *numbers) texts.push_back(number_of(number));
    return str(texts);
  }
  const std::string number = number_of(std::get<double>(value));
  const bool integral = number.find_first_of(".en") == std::string::npos;
  return number + (integral ? ".0" : "");
}

std::string attribute_argument(const Attribute& attribute) {
  const std::string head = type_of(attribute) + (may_be_none(attribute) ? "? " : " ");
  if (attribute.is_required) return head + attribute.name;
  const bool none = may_be_none(attribute);
  return str(head, attribute.name, "=", none ? "None" : default_of(attribute.default_value));
}

}  // namespace

bool may_be_none(const Attribute& attribute) {
  if (attribute.is_required) return false;
  if (attribute.is_optional) return true;
  const AttributeType type = attribute.type();
  if (type == AttributeType::Strings) return true;
  if (const auto* number = std::get_if<double>(&attribute.default_value)) {
    return !has_literal(*number);
  }
  if (const auto* list = std::get_if<std::vector<double>>(&attribute.default_value)) {
    return !std::all_of(list->begin(), list->end(), has_literal);
  }
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
  // torch takes no default before an argument without one.
  auto defaults = op.inputs.end();
  while (defaults != op.inputs.begin() && (defaults - 1)->is_optional) --defaults;
  for (auto at = op.inputs.begin(); at != op.inputs.end(); ++at) {
    const Input& input = *at;
    std::string type = input.is_variadic ? "Tensor[]" : "Tensor";
    if (input.is_written) type += str("(", std::string(1, alias++), "!)");
    if (overload.values && input.has_values) {
      type = integer_values(op, input) ? "SymInt[]" : "float[]";
    }
    text += str(separator, type, input.is_optional ? "? " : " ", input.name,
                at >= defaults ? "=None" : "");
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
