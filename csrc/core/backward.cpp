// The description of a gradient, from that of the op.
#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "myops/op.h"

namespace myops {
namespace {

// Runs the op's own rule on its inputs, and compares the shapes of the arriving gradients with
// those of the outputs.
void check_grads(const Op& op, const ShapeContext& context) {
  const size_t outputs = op.outputs.size();
  const auto from = static_cast<std::ptrdiff_t>(outputs);
  ShapeContext forward(op, context.attributes());
  forward.inputs_.assign(context.inputs_.begin() + from, context.inputs_.end());
  forward.dtypes_.assign(context.dtypes_.begin() + from, context.dtypes_.end());
  forward.values_.assign(context.values_.begin() + from, context.values_.end());
  forward.outputs_.resize(outputs);
  op.shape_rule(forward);
  std::map<std::string, int64_t> decided;  // lengths that the data decided, by name
  const auto fits = [&](const Dim& got, const Dim& expected) {
    if (!got.known()) return true;
    if (!expected.decided()) return !expected.known() || got == expected;
    if (expected.most() >= 0 && got.value > expected.most()) return false;
    return expected.symbol.empty() ||
           decided.emplace(expected.symbol, got.value).first->second == got.value;
  };
  for (size_t i = 0; i < outputs; ++i) {
    if (!forward.output(i) || !context.has(i)) continue;
    const Dims &expected = *forward.output(i), &got = context.dims(i);
    bool good = got.size() == expected.size();
    for (size_t axis = 0; good && axis < got.size(); ++axis) {
      good = fits(got[axis], expected[axis]);
    }
    MYOPS_EXPECT(context, good, context.input_name(i), "shape " + shape_text(got),
                 str(shape_text(expected), ", the shape of ", op.outputs[i].name));
  }
}

bool has_gradient(const Op& op, const Output& output) {
  for (const TypeParameter& type : op.types) {
    if (type.name != output.type) continue;
    return std::any_of(type.dtypes.begin(), type.dtypes.end(), [](DType dtype) {
      return dtype == DType::Float16 || dtype == DType::BFloat16 || dtype == DType::Float32 ||
             dtype == DType::Float64 || dtype == DType::Complex64 || dtype == DType::Complex128;
    });
  }
  return true;  // not declared: refused elsewhere
}

}  // namespace

Op backward_of(const Op& op, const std::vector<std::string>& differentiable) {
  Op result(op.name + "_backward");
  result.summary = "The gradients of " + op.name + ".";
  result.types = op.types;
  result.attributes = op.attributes;
  result.is_random = op.is_random;
  for (const Output& output : op.outputs) {
    result.inputs.push_back({"grad_" + output.name, output.type, "The gradient of " + output.name});
    // An output that the call leaves out has no gradient, nor has an output of integers.
    result.inputs.back().is_optional = !output.condition.empty() || !has_gradient(op, output);
  }
  std::vector<size_t> places;  // of the inputs that have a gradient, among the inputs of the result
  for (const Input& input : op.inputs) {
    const bool wanted =
        std::find(differentiable.begin(), differentiable.end(), input.name) != differentiable.end();
    if (wanted && input.is_variadic) {
      fail(result.name, input.name, "a list of tensors among the inputs with a gradient",
           "single tensors: a kernel has a fixed number of outputs; write this gradient in Python");
    }
    if (wanted) {
      places.push_back(result.inputs.size());
      const char* ending = input.is_optional ? ", or empty without it." : ".";
      result.outputs.push_back({"grad_" + input.name, input.type, "As " + input.name + ending});
    }
    result.inputs.push_back(input);
  }
  if (places.size() != differentiable.size()) {
    throw Error(str(result.name, ": backward_of: got ", differentiable.size(),
                    " names, expected names of inputs of ", op.name, ", each once"));
  }
  auto completed = std::make_shared<Op>(op);
  complete(*completed);
  const std::shared_ptr<const Op> forward = completed;
  result.shape_rule = [forward, places](ShapeContext& context) {
    check_grads(*forward, context);
    for (size_t i = 0; i < places.size(); ++i) {
      context.set_output(i, context.has(places[i]) ? context.dims(places[i]) : Dims{0});
    }
  };
  return result;
}

}  // namespace myops
