#include <algorithm>

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

}  // namespace

void for_each_op(Listener listener) {
  for (const Op& op : registry()) listener(op);
  listeners().push_back(listener);
}

detail::Registrar::Registrar(Op (*make)()) {
  std::vector<Op>& ops = registry();
  Op op = make();
  const auto by_name = [](const Op& left, const Op& right) { return left.name < right.name; };
  const auto place = std::lower_bound(ops.begin(), ops.end(), op, by_name);
  const auto inserted = ops.insert(place, std::move(op));
  for (const Listener listener : listeners()) listener(*inserted);
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

const std::string& ShapeContext::op_name() const { return op_.name; }
const std::string& ShapeContext::input_name(size_t input) const { return op_.inputs[input].name; }
const std::string& PrepareContext::op_name() const { return op_.name; }
const std::string& KernelContext::op_name() const { return op_.name; }

}  // namespace myops
