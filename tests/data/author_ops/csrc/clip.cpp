// clip_: limits a tensor in its own memory and counts what it changed; clip: the same without
// writes, which is what an exported model has.
#include "myops/op.h"

namespace {
using namespace myops;

void shape(ShapeContext& context) { context.set_output(0, {}); }

template <class T>
void compute(KernelContext& context) {
  const Tensor& x = context.input(0);
  const auto limit = static_cast<T>(context.attributes().real("limit"));
  int64_t changed = 0;
  for (int64_t i = 0; i < x.elements(); ++i) {
    T& value = x.as<T>()[i];
    if (!(value > limit) && !(value < -limit)) continue;
    value = value > 0 ? limit : -limit;
    ++changed;
  }
  *context.output(0).as<int64_t>() = changed;
}

}  // namespace

MYOPS_OP(clip_) {
  return Op("clip_")
      .doc("Limits x to the range from -limit to limit, in place.")
      .type("T", {DType::Float32, DType::Float64})
      .type("I", {DType::Int64})
      .input(Input{"x", "T", "Any tensor."}.written())
      .output({"changed", "I", "[]: how many elements were outside."})
      .attribute(Attribute{"limit", 0.7, "At least 0."}.at_least(0))
      .shape(shape)
      .kernel(MYOPS_TYPED(compute, float, double));
}

MYOPS_OP(clip) { return functional_of(describe_clip_()).onnx("ClipCounting", 1); }
