// every: each step-th number of each row. The step is required, has bounds, and may be symbolic
// where torch traces: the shape rule is text.
#include "myops/op.h"

namespace {
using namespace myops;

template <class T>
void compute(KernelContext& context) {
  const Tensor &x = context.input(0), &y = context.output(0);
  const int64_t step = context.attributes().integer("step");
  const int64_t length = x.shape.back(), kept = y.shape.back();
  const int64_t rows = kept == 0 ? 0 : y.elements() / kept;
  context.parallel_for(rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t i = 0; i < kept; ++i) {
        y.as<T>()[row * kept + i] = x.as<T>()[row * length + i * step];
      }
    }
  });
}

}  // namespace

MYOPS_OP(every) {
  return Op("every")
      .onnx("Every", 1)
      .doc("Each step-th number of each row, beginning with the first.")
      .type("T", {DType::Float32, DType::Float64})
      .input({"x", "T", "Its last axis is a row."})
      .output({"y", "T", "Shorter rows."})
      .attribute(
          Attribute{"step", int64_t{0}, "From one to the next."}.at_least(1).at_most(64).required())
      .shape("... N -> ... {(N + step - 1) // step}")
      .kernel(MYOPS_TYPED(compute, float, double));
}
