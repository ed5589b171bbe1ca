#include "decided_outputs.h"

#include <algorithm>

namespace myops {

std::shared_ptr<const DecidedAxes> decided_axes(const ShapeContext& context) {
  std::shared_ptr<DecidedAxes> axes;
  for (size_t output = 0; output < context.outputs_.size(); ++output) {
    const std::optional<Dims>& dims = context.output(output);
    for (size_t axis = 0; dims && axis < dims->size(); ++axis) {
      if (!(*dims)[axis].decided()) continue;
      if (!axes) axes = std::make_shared<DecidedAxes>();
      axes->push_back({output, axis, {(*dims)[axis].symbol, (*dims)[axis].most()}});
    }
  }
  return axes;
}

void take_output(const Op& op, size_t output, DType dtype, const Shape& shape, Budget& budget) {
  const size_t bytes = byte_count(shape, dtype);
  if (budget.try_take(bytes)) return;
  budget.refuse(op.name, op.outputs[output].name, str(dtype_name(dtype), " of shape ", shape),
                bytes);
}

bool DecidedOutputs::has(size_t output) const {
  return std::any_of(axes_.begin(), axes_.end(),
                     [&](const DecidedAxis& axis) { return axis.output == output; });
}

void DecidedOutputs::reserve() {
  std::vector<std::pair<DType, Shape>> most;
  unmade_number_.assign(described_.size(), -1);
  for (size_t output = 0; output < described_.size(); ++output) {
    if (!described_[output].present || !has(output)) continue;
    Shape shape = described_[output].shape;
    for (const DecidedAxis& axis : axes_) {
      if (axis.output != output) continue;
      shape[axis.axis] = axis.length.most >= 0 ? axis.length.most : int64_t{1} << 30;
    }
    unmade_number_[output] = static_cast<int>(most.size());
    most.emplace_back(described_[output].dtype, shape);
  }
  unmade_.reserve(most);
  for (size_t output = 0; output < described_.size(); ++output) {
    if (unmade_number_[output] < 0) continue;
    outputs_[output].data = unmade_.at(static_cast<size_t>(unmade_number_[output]));
    outputs_[output].dtype = described_[output].dtype;
  }
}

void DecidedOutputs::check_thread(const std::string& what, const char* call) const {
  if (in_pieces_ == 0 && std::this_thread::get_id() == thread_) return;
  fail(op_.name, what, str("a call of ", call, " in parallel_for or from another thread"),
       "one by the thread that runs the kernel, outside of parallel_for");
}

void DecidedOutputs::check_unwritten(size_t output) const {
  if (unmade_number_[output] < 0) return;
  if (!unmade_.written(static_cast<size_t>(unmade_number_[output]))) return;
  fail(op_.name, op_.outputs[output].name,
       "a kernel that writes an output before it has set the length",
       "a call of allocate_output or set_length first: pointers and views that were made before it "
       "do not lead to the output");
}

void DecidedOutputs::check_length(const DecidedAxis& axis, int64_t length) {
  const auto wrong = [&](const std::string& expected) {
    fail(op_.name, op_.outputs[axis.output].name,
         str("length ", length, " on axis ", axis.axis, " from the kernel"), expected);
  };
  if (length < 0) wrong("0 or more");
  if (axis.length.most >= 0 && length > axis.length.most) {
    wrong(str("at most ", axis.length.most, ", the bound in the shape rule"));
  }
  if (axis.length.name.empty()) return;
  for (const auto& [name, length_before] : named_lengths_) {
    if (name != axis.length.name) continue;
    if (length_before != length) {
      wrong(str(length_before, ", the length that the kernel has set for ", quoted(name)));
    }
    return;
  }
  named_lengths_.emplace_back(axis.length.name, length);
}

void DecidedOutputs::check(size_t output, const Shape& shape) {
  const Shape& known = described_[output].shape;
  bool fits = shape.size() == known.size();
  for (size_t axis = 0; fits && axis < shape.size(); ++axis) {
    fits = known[axis] < 0 || known[axis] == shape[axis];
  }
  if (!fits) {
    fail(op_.name, op_.outputs[output].name, str("shape ", shape, " from the kernel"),
         str(known, ", where -1 is a length for the kernel to decide"));
  }
  for (const DecidedAxis& axis : axes_) {
    if (axis.output == output) check_length(axis, shape[axis.axis]);
  }
}

const Tensor& DecidedOutputs::allocate(size_t output, const Shape& shape) {
  check_thread(output < op_.outputs.size() ? op_.outputs[output].name : "kernel",
               "allocate_output");
  const char* reason = nullptr;
  if (output >= described_.size() || !has(output)) {
    reason = "an output with a length that the shape rule leaves to the kernel (Dim::at_most)";
  } else if (made_[output]) {
    reason = "one call of allocate_output or set_length for it";
  }
  if (reason != nullptr) {
    const std::string name =
        output < op_.outputs.size() ? op_.outputs[output].name : str("output ", output);
    fail(op_.name, name, "a call of allocate_output", reason);
  }
  made_[output] = true;
  if (!described_[output].present) return outputs_[output];  // this call leaves it out
  check(output, shape);
  check_unwritten(output);
  const DType dtype = described_[output].dtype;
  take_output(op_, output, dtype, shape, runtime_.budget());
  outputs_[output] = runtime_.allocate(output, dtype, shape, layouts_[output]);
  return outputs_[output];
}

void DecidedOutputs::set_length(const std::string& name, int64_t length) {
  check_thread(quoted(name), "set_length");
  bool found = false;
  for (const DecidedAxis& axis : axes_) {
    if (axis.length.name != name) continue;
    found = true;
    check_length(axis, length);
  }
  if (!found || name.empty()) {
    fail(op_.name, "kernel", str("set_length of ", quoted(name)),
         "the name of a length in Dim::at_most(bound, name)");
  }
  for (size_t output = 0; output < described_.size(); ++output) {
    if (made_[output] || !described_[output].present || !has(output)) continue;
    Shape shape = described_[output].shape;
    for (const DecidedAxis& axis : axes_) {
      if (axis.output != output) continue;
      for (const auto& [name, length] : named_lengths_) {
        if (name == axis.length.name) shape[axis.axis] = length;
      }
    }
    if (std::find(shape.begin(), shape.end(), -1) == shape.end()) allocate(output, shape);
  }
}

void DecidedOutputs::check_complete() const {
  for (const DecidedAxis& axis : axes_) {
    if (made_[axis.output] || !described_[axis.output].present) continue;
    fail(op_.name, op_.outputs[axis.output].name, "no length from the kernel",
         "a call of allocate_output or set_length before it writes, also where the length is 0");
  }
  for (const DecidedAxis& axis : axes_) check_unwritten(axis.output);
}

namespace {

DecidedOutputs& decided_of(const Op& op, DecidedOutputs* decided) {
  if (decided != nullptr) return *decided;
  throw Error(str(op.name,
                  ": kernel: got a call of allocate_output or set_length, expected none: "
                  "the shape rule knows every length (see Dim::at_most)"));
}

}  // namespace

const Tensor& KernelContext::allocate_output(size_t index, const Shape& shape) const {
  return decided_of(op_, decided_).allocate(index, shape);
}

void KernelContext::set_length(const std::string& name, int64_t length) const {
  decided_of(op_, decided_).set_length(name, length);
}

}  // namespace myops
