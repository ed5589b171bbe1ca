// Type parameters, inputs and outputs in the description of an op.
#include <algorithm>
#include <set>

#include "checks.h"
#include "description_checks.h"

namespace myops {
namespace {

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

}  // namespace

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

}  // namespace myops
