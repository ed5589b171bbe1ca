// cube: x^3 in float32 and nothing else.
#include "myops/op.h"

namespace {
using namespace myops;

void shape(ShapeContext& context) { context.set_output(0, context.dims(0)); }

void compute(KernelContext& context) {
  const float* x = context.input(0).as<float>();
  float* y = context.output(0).as<float>();
  context.parallel_for(context.input(0).elements(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = x[i] * x[i] * x[i];
  });
}

}  // namespace

MYOPS_OP(cube) {
  return Op("cube")
      .onnx("Cube", 1)
      .doc("The third power of each element.")
      .type("T", {DType::Float32})
      .input({"x", "T", "Any tensor."})
      .output({"y", "T", "Of the shape of x."})
      .shape(shape)
      .kernel(compute);
}
