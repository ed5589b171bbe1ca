// Checks the description of an op when the library is loaded, so that a mistake is reported by name
// there rather than by a call that crashes or fails inside the C++ standard library.
#include <algorithm>

#include "checks.h"
#include "description_checks.h"

namespace myops {
namespace {

constexpr int kMaxVersion = 1000;  // of a domain, in ONNX Runtime
// Refuses bounds between which there is no number.
void check_bounds(const Op& op, const Attribute& attribute) {
  const double low = *attribute.bound, high = *attribute.upper;
  const bool both = !attribute.above_bound && !attribute.below_upper;
  if (low < high || (both && low == high)) return;
  fail(op.name, attribute.name, str("bounds from ", low, " to ", high),
       "bounds between which is a number");
}

void check_attributes_of(const Op& op) {
  for (const Attribute& attribute : op.attributes) {
    const AttributeType type = attribute.type();
    const char* kind = detail::kind_of(attribute.default_value);
    using Type = AttributeType;
    const bool is_text = type == Type::String || type == Type::Strings;
    const bool is_whole = type == Type::Int || type == Type::Ints;
    if (!attribute.default_value.given()) {
      fail(op.name, attribute.name, "no value", "one, whose type is that of the attribute");
    }
    if (!attribute.choices.empty() && !is_text) {
      fail(op.name, attribute.name, str("choices for ", kind), "choices for a string only");
    }
    if (!attribute.integers.empty() && !is_whole) {
      fail(op.name, attribute.name, str("choices of ints for ", kind), "choices for ints only");
    }
    if ((attribute.bound || attribute.upper) && (type == Type::Bool || is_text)) {
      fail(op.name, attribute.name, str("a bound for ", kind), "a bound for numbers only");
    }
    if (attribute.is_exact && !std::holds_alternative<double>(attribute.default_value.held()) &&
        !std::holds_alternative<std::vector<double>>(attribute.default_value.held())) {
      fail(op.name, attribute.name, str("exact() for ", kind), "it for floats only");
    }
    if (attribute.is_required && attribute.is_optional) {
      fail(op.name, attribute.name, "required() and optional()", "one of the two");
    }
    check_text(op, attribute.name, attribute.doc);
    for (const std::string& choice : attribute.choices) check_text(op, attribute.name, choice);
    if (const auto* text = std::get_if<std::string>(&attribute.default_value.held())) {
      check_text(op, attribute.name, *text);
    }
    if (attribute.bound && attribute.upper) check_bounds(op, attribute);
    if (attribute.is_required || attribute.is_optional) continue;  // there is no default
    check_attribute(op, attribute, attribute.default_value);
  }
}

bool is_float(DType dtype) {
  return dtype == DType::Float16 || dtype == DType::BFloat16 || dtype == DType::Float32 ||
         dtype == DType::Float64;
}

// Refuses an autocast policy by which no input can be cast.
void check_autocast(const Op& op) {
  if (op.autocast_policy == Autocast::None) return;
  for (const Input& input : op.inputs) {
    if (input.has_values) continue;
    const std::vector<DType>& legal = op.dtypes(input.type);
    const auto has = [&](DType dtype) {
      return std::find(legal.begin(), legal.end(), dtype) != legal.end();
    };
    const bool lower = has(DType::Float16) || has(DType::BFloat16);
    switch (op.autocast_policy) {
      case Autocast::Lower:
        if (lower) return;
        break;
      case Autocast::Float32:
        if (has(DType::Float32) && lower) return;
        break;
      default:
        if (std::count_if(legal.begin(), legal.end(), is_float) > 1) return;
    }
  }
  constexpr const char* expected[] = {"", "an input whose type has float16 or bfloat16",
                                      "an input whose type has float32 and float16 or bfloat16",
                                      "an input whose type has two floating dtypes or more"};
  fail(op.name, "autocast", "a policy that no input follows",
       expected[static_cast<int>(op.autocast_policy)]);
}

void check_prepare(const Op& op) {
  if (!op.prepared_inputs.empty() && (op.is_variadic() || op.writes() || op.in_place)) {
    fail(op.name, "prepare", "names of inputs in an op that has a list of tensors or writes",
         "no names, or an op that has neither");
  }
  for (const std::string& name : op.prepared_inputs) {
    const auto has_name = [&](const Input& input) { return input.name == name; };
    if (!std::any_of(op.inputs.begin(), op.inputs.end(), has_name)) {
      fail(op.name, "prepare", quoted(name), "names of inputs");
    }
  }
}

// Refuses descriptions that a kernel on a device cannot implement.
void check_cuda(const Op& op) {
  if (op.compute_cuda == nullptr) return;
  if (op.writes() || op.in_place) {
    fail(op.name, "cuda", "a kernel for CUDA in an op that writes into its inputs",
         "none: describe an op with outputs alone");
  }
  const auto refuse_strings = [&](const std::string& name, const std::string& type) {
    for (const DType dtype : op.dtypes(type)) {
      if (dtype != DType::String) continue;
      fail(op.name, name, "dtype string in an op with a kernel for CUDA",
           "none: a device has no strings");
    }
  };
  for (const Input& input : op.inputs) refuse_strings(input.name, input.type);
  for (const Output& output : op.outputs) refuse_strings(output.name, output.type);
}

void check_rules(const Op& op) {
  if (!op.shape_rule) fail(op.name, "shape", "no rule", "one, given with .shape()");
  if (!op.shape_text.empty()) check_rule(op, op.shape_text);
  if (op.writes() && op.shape_text.find("<=") != std::string::npos) {
    fail(op.name, "shape", "a length for the kernel to decide, in an op that writes into an input",
         "lengths that the rule knows");
  }
  if (op.compute == nullptr) fail(op.name, "kernel", "none", "one, given with .kernel()");
  if (op.computed_dtypes.empty()) return;
  for (const DType dtype : op.dtypes(op.inputs[0].type)) {
    if (std::find(op.computed_dtypes.begin(), op.computed_dtypes.end(), dtype) ==
        op.computed_dtypes.end()) {
      fail(op.name, op.inputs[0].name,
           str(dtype_name(dtype), " among the dtypes of ", op.inputs[0].type),
           str("those that the kernel is written for, ", dtype_names(op.computed_dtypes)));
    }
  }
}

}  // namespace

void check_description(const Op& op) {
  if (!is_identifier(op.name)) {
    fail("an op", "name", quoted(op.name), kIdentifier);
  }
  if (is_reserved(op.name))
    fail(op.name, "name", "a word that Python or TorchScript reserves", "another name");
  if (!op.onnx_type.empty()) check_name(op, "onnx", op.onnx_type);
  check_text(op, "doc", op.summary);
  for (const Input& input : op.inputs) check_text(op, input.name, input.doc);
  for (const Output& output : op.outputs) check_text(op, output.name, output.doc);
  if (op.since_version < 1 || op.since_version > kMaxVersion) {
    fail(op.name, "onnx", str("version ", op.since_version), str("1 to ", kMaxVersion));
  }
  check_types(op);
  check_arguments(op);
  check_attributes_of(op);
  check_rules(op);
  check_autocast(op);
  check_prepare(op);
  check_cuda(op);
}

}  // namespace myops
