#include <algorithm>

#include "library_names.h"
#include "myops/op.h"
#include "taken_names.h"

namespace myops {
namespace {

// Function-local, so that it exists before the first registrar of any file runs.
std::vector<Op>& registry() {
  static std::vector<Op> ops;
  return ops;
}

using Listener = void (*)(const Op&);

std::vector<Listener>& listeners() {
  static std::vector<Listener> functions;
  return functions;
}

std::vector<std::string>& found_faults() {
  static std::vector<std::string> texts;
  return texts;
}

void check_library() {
  for (const std::string name : {library_domain(), library_namespace()}) {
    const std::string owner = taken_by(name);
    if (!name.empty() && owner.empty()) continue;
    throw Error(str("domain: got ", quoted(name),
                    owner.empty() ? "" : ", which belongs to " + owner,
                    ", expected a name that no other library uses"));
  }
}

// Two ops of one ONNX type are two versions of it. ONNX Runtime has one signature for both.
void check_version(const Op& op, const Op& other) {
  if (op.since_version == other.since_version) {
    fail(op.name, "onnx",
         str("version ", op.since_version, " of the type ", op.onnx_type, ", which ", other.name,
             " has"),
         "a type or a version of its own");
  }
  const bool counts =
      op.inputs.size() == other.inputs.size() && op.outputs.size() == other.outputs.size();
  if (!counts) {
    fail(op.name, "onnx",
         str(op.inputs.size(), " inputs and ", op.outputs.size(), " outputs for version ",
             op.since_version, " of ", op.onnx_type),
         str(other.inputs.size(), " and ", other.outputs.size(), ", as version ",
             other.since_version, " has: ONNX Runtime has one signature for a type"));
  }
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i].is_optional == other.inputs[i].is_optional) continue;
    fail(op.name, op.inputs[i].name,
         str(op.inputs[i].is_optional ? "an" : "no", " optional input in version ",
             op.since_version, " of ", op.onnx_type),
         str("the same as in version ", other.since_version));
  }
}

void check_new(const Op& op) {
  for (const Op& other : registry()) {
    if (other.name == op.name)
      fail(op.name, "name", "the name of another op",
           "a name that no other op of this library has");
    if (!op.onnx_type.empty() && other.onnx_type == op.onnx_type) check_version(op, other);
  }
}

}  // namespace

const std::vector<std::string>& faults() { return found_faults(); }

void detail::add_fault(const std::string& fault) {
  found_faults().push_back(str("library ", library_domain(), ": ", fault));
}

void refuse_faults() {
  std::string text;
  for (const std::string& fault : faults()) text += (text.empty() ? "" : "\n") + fault;
  if (!text.empty()) throw Error(text);
}

void (*detail::run_stack)(const void* target, uint64_t* stack) = nullptr;

void for_each_op(Listener listener) {
  for (const Op& op : registry()) listener(op);
  listeners().push_back(listener);
}

// An exception while a binary is being loaded would end the process.
detail::Registrar::Registrar(const char* name, Op (*make)(), const StackEntries& entries) {
  try {
    if (registry().empty()) check_library();
    std::vector<Op>& ops = registry();
    Op op = make();
    complete(op);
    check_description(op);
    check_new(op);
    op.stack_entries = entries;
    const auto by_name = [](const Op& left, const Op& right) { return left.name < right.name; };
    const auto place = std::lower_bound(ops.begin(), ops.end(), op, by_name);
    const auto inserted = ops.insert(place, std::move(op));
    for (const Listener listener : listeners()) listener(*inserted);
  } catch (const Error& error) {
    add_fault(error.what());
  } catch (const std::exception& error) {
    add_fault(str(name, ": description: got an exception, ", error.what(), ", expected none"));
  } catch (...) {
    add_fault(
        str(name, ": description: got an exception that is not a std::exception, expected none"));
  }
}

const std::vector<Op>& all_ops() { return registry(); }

std::vector<const Op*> versions_of(const Op& op) {
  std::vector<const Op*> versions;
  for (const Op& other : registry()) {
    if (other.name == op.name || (!op.onnx_type.empty() && other.onnx_type == op.onnx_type)) {
      versions.push_back(&other);
    }
  }
  std::sort(versions.begin(), versions.end(), [](const Op* left, const Op* right) {
    return left->since_version < right->since_version;
  });
  return versions;
}

const Op* find_op(const std::string& name) {
  for (const Op& op : registry()) {
    if (op.name == name) return &op;
  }
  return nullptr;
}

const std::vector<DType>& Op::dtypes(const std::string& type_name) const {
  for (const TypeParameter& parameter : types) {
    if (parameter.name == type_name) return parameter.dtypes;
  }
  throw Error(str(name, ": type: got the undeclared parameter ", quoted(type_name),
                  ", expected .type(", quoted(type_name), ", {...}) in the description"));
}

std::string Op::input_name(size_t index) const {
  const size_t last = inputs.size() - 1;
  if (index < last || !is_variadic()) return inputs[index].name;
  return str(inputs.back().name, "[", index - last, "]");
}

const std::string& ShapeContext::op_name() const { return op_.name; }
std::string ShapeContext::input_name(size_t input) const { return op_.input_name(input); }
size_t ShapeContext::declared_inputs() const { return op_.inputs.size(); }
const std::string& PrepareContext::op_name() const { return op_.name; }
const std::string& KernelContext::op_name() const { return op_.name; }

}  // namespace myops
