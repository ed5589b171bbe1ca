#include <algorithm>

#include "library_names.h"
#include "myops/op.h"

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

// Names that ONNX, ONNX Runtime and torch use for their own ops.
bool belongs_to_others(const std::string& name) {
  for (const std::string other : {"ai.onnx", "com.microsoft", "aten", "prim", "prims"}) {
    if (name == other || name.compare(0, other.size() + 1, other + ".") == 0) return true;
  }
  return name.empty();
}

void check_library() {
  for (const std::string name : {library_domain(), library_namespace()}) {
    if (belongs_to_others(name)) {
      throw Error(str("domain: got ", quoted(name), ", expected one that belongs to nobody else"));
    }
  }
}

void check_new(const Op& op) {
  for (const Op& other : registry()) {
    if (other.name == op.name) fail(op.name, "name", "that of another op", "one of its own");
    if (!op.onnx_type.empty() && other.onnx_type == op.onnx_type) {
      fail(op.name, "onnx", str("the type ", op.onnx_type, ", which ", other.name, " has"),
           "one of its own");
    }
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
  }
}

const std::vector<Op>& all_ops() { return registry(); }

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
  throw Error(
      str(name, ": the description uses type parameter ", type_name, " without declaring it"));
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
