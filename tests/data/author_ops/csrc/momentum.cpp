// momentum_: a step of an optimizer, which writes the parameter and its speed; momentum: the same
// without writes.
#include "myops/op.h"

namespace {
using namespace myops;

template <class T>
void compute(KernelContext& context) {
  const Tensor &parameter = context.input(0), &speed = context.input(1), &grad = context.input(2);
  const auto rate = static_cast<T>(context.attributes().real("rate"));
  const auto decay = static_cast<T>(context.attributes().real("decay"));
  const Tensor& step = context.output(1);
  context.parallel_for(parameter.elements(), 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T& moved = speed.as<T>()[i];
      moved = decay * moved + grad.as<T>()[i];
      parameter.as<T>()[i] -= rate * moved;
      if (step.present) step.as<T>()[i] = rate * moved;
    }
  });
  context.output(0).as<int64_t>()[0] = parameter.elements();
}

}  // namespace

MYOPS_OP(momentum_) {
  return Op("momentum_")
      .doc("Moves a parameter against its gradient, in place.")
      .type("T", {DType::Float32, DType::Float64})
      .type("I", {DType::Int64})
      .input(Input{"parameter", "T", "Any tensor."}.written())
      .input(Input{"speed", "T", "As parameter."}.written())
      .input({"grad", "T", "As parameter."})
      .output({"count", "I", "[1]: how many elements were moved."})
      .output(Output{"step", "T", "As parameter: by how much."}.only_if("return_step"))
      .attribute(Attribute{"rate", 0.1, "Of the speed that the parameter moves by."}.exact())
      .attribute(Attribute{"decay", 0.9, "Of the speed that remains."}.exact())
      .attribute({"return_step", false, "Whether step is computed."})
      .shape("S..., S..., S... -> 1, S...")
      .kernel(MYOPS_TYPED(compute, float, double));
}

MYOPS_OP(momentum) { return functional_of(describe_momentum_()).onnx("Momentum", 1); }
