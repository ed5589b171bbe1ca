// Checks the description of an op when the library is loaded, so that a mistake is reported by name
// there rather than by a call that crashes or fails inside the C++ standard library.
#include <algorithm>
#include <set>

#include "checks.h"
#include "myops/op.h"

namespace myops {
namespace {

constexpr int kMaxVersion = 1000;  // of a domain, in ONNX Runtime
constexpr const char* kIdentifier = "letters, digits and \"_\", and no digit first";

bool is_identifier(const std::string& name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto legal = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
  return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), legal);
}

void check_name(const Op& op, const char* what, const std::string& name) {
  if (!is_identifier(name)) fail(op.name, what, str("the name ", quoted(name)), kIdentifier);
}

// Callers write the names of ops, inputs and attributes in Python, and TorchScript in its schemas.
bool is_reserved(const std::string& name) {
  static const std::set<std::string> words = {
      "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
      "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
      "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
      "or",    "pass",     "raise", "return", "self", "try",    "while",  "with",     "yield"};
  return words.count(name) != 0;
}

void check_free(const Op& op, const std::string& name) {
  if (is_reserved(name))
    fail(op.name, name, "a word that Python or TorchScript reserves", "another name");
}

bool is_utf8(const std::string& text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t more = byte < 0x80                   ? 0
                        : byte >= 0xc2 && byte < 0xe0 ? 1
                        : byte >= 0xe0 && byte < 0xf0 ? 2
                        : byte >= 0xf0 && byte < 0xf5 ? 3
                                                      : 4;
    if (more == 4 || i + more >= text.size()) return false;
    for (size_t k = 1; k <= more; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    }
    i += 1 + more;
  }
  return true;
}

void check_text(const Op& op, const std::string& name, const std::string& text) {
  if (is_utf8(text)) return;
  fail(op.name, name, str("the text ", quoted(text)), "UTF-8, which Python and ONNX read");
}

void check_once(const Op& op, const char* what, const std::string& name,
                std::set<std::string>& seen) {
  check_name(op, what, name);
  if (!seen.insert(name).second) {
    fail(op.name, name, str("the name of two ", what), "each name once");
  }
}

void check_types(const Op& op) {
  std::set<std::string> names;
  for (const TypeParameter& type : op.types) {
    check_once(op, "type parameters", type.name, names);
    if (type.dtypes.empty()) fail(op.name, type.name, "a type of no dtypes", "at least one");
    std::set<DType> dtypes;
    for (const DType dtype : type.dtypes) {
      if (!dtypes.insert(dtype).second) {
        fail(op.name, type.name, str(dtype_name(dtype), " twice"), "each dtype once");
      }
    }
  }
}

void check_type_of(const Op& op, const std::string& name, const std::string& type) {
  std::vector<std::string> declared;
  for (const TypeParameter& parameter : op.types) declared.push_back(parameter.name);
  if (std::find(declared.begin(), declared.end(), type) == declared.end()) {
    fail(op.name, name, str("the type parameter ", quoted(type)),
         str("one that the op declares with .type(), of ", declared));
  }
}

void check_input(const Op& op, const Input& input) {
  if (input.is_variadic && op.is_random) {
    fail(op.name, input.name, "a variadic input in a random op",
         "single tensors: the last input of a random op is its key");
  }
  if (input.is_variadic && &input != &op.inputs.back()) {
    fail(op.name, input.name, "a variadic input before others", "it to be the last, as in ONNX");
  }
  if (input.is_variadic && (input.is_optional || input.has_values || input.is_written)) {
    fail(op.name, input.name, "a variadic input that is optional, written or of values",
         "one that is none of these");
  }
  if (!input.is_written) return;
  if (!op.onnx_type.empty()) {
    fail(op.name, input.name, str("an input that is written in an op with the node ", op.onnx_type),
         "no node, because nodes write nothing; give it to the op of functional_of()");
  }
  if (input.is_optional || input.has_values) {
    fail(op.name, input.name, "a written input that is optional or of values", "one that is not");
  }
  if (op.autocast_policy != Autocast::None) {
    fail(op.name, input.name, "a written input in an op with an autocast policy",
         "no policy: the op would write into a copy");
  }
  const std::vector<DType>& dtypes = op.dtypes(input.type);
  if (std::find(dtypes.begin(), dtypes.end(), DType::String) != dtypes.end()) {
    fail(op.name, input.name, "a written input that may have strings",
         "other dtypes: a kernel reads a copy of strings");
  }
}

// Nodes and function bodies call the tensors of a variadic input x x_0, x_1 and so on.
void check_items(const Op& op, const std::string& name) {
  if (!op.is_variadic()) return;
  const std::string head = op.inputs.back().name + "_";
  if (name.size() == head.size() || name.compare(0, head.size(), head) != 0) return;
  if (name.find_first_not_of("0123456789", head.size()) != std::string::npos) return;
  fail(op.name, name, str("the name of a tensor in the variadic input ", op.inputs.back().name),
       "another name");
}

// Whether a call computes an optional output is decided by something that every runtime knows
// before the call.
void check_condition(const Op& op, const Output& output) {
  const std::string& name = output.condition;
  if (name.empty()) return;
  for (const Input& input : op.inputs) {
    if (input.name == name && input.is_optional && !input.has_values) return;
  }
  for (const Attribute& attribute : op.attributes) {
    const bool is_flag = attribute.type() == AttributeType::Bool && !attribute.is_optional;
    if (attribute.name == name && is_flag) return;
  }
  fail(op.name, output.name, str("only_if of ", quoted(name)),
       "the name of an optional input, or of an attribute that is a bool");
}

// A type parameter that no input has.
void check_decided_type(const Op& op, const Output& output) {
  const auto has = [&](const Input& input) { return input.type == output.type; };
  const size_t count = op.dtypes(output.type).size();
  if (count == 1 || std::any_of(op.inputs.begin(), op.inputs.end(), has)) return;
  fail(op.name, output.name,
       str("the type parameter ", output.type, " of ", count, " dtypes, which no input has"),
       "a parameter of one dtype, as nothing decides between several");
}

void check_arguments(const Op& op) {
  if (op.inputs.empty()) {
    fail(op.name, "inputs", "none", "at least one: their dtypes decide those of the outputs");
  }
  if (op.outputs.empty() && !op.writes()) fail(op.name, "outputs", "none", "at least one");
  const auto is_optional = [](const Output& output) { return !output.condition.empty(); };
  if (!op.outputs.empty() && std::all_of(op.outputs.begin(), op.outputs.end(), is_optional)) {
    fail(op.name, op.outputs[0].name, "outputs that are all optional",
         "at least one that every call computes");
  }
  std::set<std::string> names;
  for (const Input& input : op.inputs) {
    check_once(op, "inputs", input.name, names);
    check_type_of(op, input.name, input.type);
    check_input(op, input);
    check_items(op, input.name);
    for (const DType dtype : op.dtypes(input.type)) {
      if (!input.has_values || is_number(dtype)) continue;
      fail(op.name, input.name, str(dtype_name(dtype), " for an input with .values()"),
           "dtypes of integers or of real numbers of 16 bits and more");
    }
  }
  for (const Input& input : op.inputs) check_free(op, input.name);
  for (const Attribute& attribute : op.attributes) {
    check_once(op, "inputs or attributes", attribute.name, names);
    check_free(op, attribute.name);
    if (attribute.name == "since_version") {
      fail(op.name, attribute.name, "an attribute of this name",
           "another name: nodes state the version of their meaning by it");
    }
  }
  if (op.is_random && names.count("generator") != 0) {
    fail(op.name, "generator", "an input or attribute of this name in a random op",
         "another name: callers give a torch.Generator by it");
  }
  if (op.outputs.size() == 1 && names.count("out") != 0) {
    fail(op.name, "out", "an input or attribute of this name",
         "another name: torch has it for the "
         "tensor that takes the result");
  }
  std::set<std::string> outputs;
  for (const Output& output : op.outputs) {
    check_once(op, "outputs", output.name, outputs);
    check_type_of(op, output.name, output.type);
    check_decided_type(op, output);
    check_condition(op, output);
    check_items(op, output.name);
    for (const std::string& name : output.overwritten) {
      const auto has_name = [&](const Input& input) { return input.name == name; };
      if (!std::any_of(op.inputs.begin(), op.inputs.end(), has_name)) {
        fail(op.name, output.name, str("may_overwrite of ", quoted(name)), "names of inputs");
      }
    }
  }
}

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

const char* detail::kind_of(const AttributeValue& value) {
  constexpr const char* kinds[] = {
      "a bool",         "an int",           "a float",           "a string",
      "a list of ints", "a list of floats", "a list of strings", "nothing"};
  return kinds[value.index()];
}

std::string detail::unknown_attribute(const char* name, const std::vector<Attribute>& declared) {
  std::vector<std::string> names;
  for (const Attribute& attribute : declared) names.push_back(attribute.name);
  return str(name, ": got an attribute of this name in the code of the op, expected one of ",
             names);
}

std::string detail::wrong_kind(const char* name, const AttributeValue& value,
                               const AttributeValue& asked) {
  if (!value.given()) {
    return str(name, ": got nothing, expected ", kind_of(asked),
               ", which the code of the op reads; "
               "has() tells whether an optional attribute was given");
  }
  return str(name, ": got code that reads ", kind_of(asked), ", expected ", kind_of(value),
             ", as the op declares it");
}

void detail::refuse_dispatch(DType dtype, std::initializer_list<DType> known) {
  throw Mistake(str("kernel: got dtype ", dtype_name(dtype), ", expected ", dtype_names(known),
                    ", which it is written for. Declare and dispatch the same dtypes"));
}

}  // namespace myops
