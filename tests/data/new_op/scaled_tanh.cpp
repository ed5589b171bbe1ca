// scaled_tanh: y = alpha * tanh(x), plus bias where one is given.
#include <cmath>

#include "myops/op.h"

namespace myops {
namespace {

void shape(ShapeContext& context) {
  const Dims& x = context.dims(0);
  MYOPS_EXPECT(context, !x.empty(), "x", "rank 0", "rank 1 or more");
  if (context.has(1)) {
    const Dims& bias = context.dims(1);
    MYOPS_EXPECT(context, bias.size() == 1, "bias", str("rank ", bias.size()), "rank 1");
    const bool differ = bias[0].known() && x.back().known() && bias[0].value != x.back().value;
    MYOPS_EXPECT(context, !differ, "bias", str("length ", bias[0].value),
                 str(x.back().value, ", the last length of x"));
  }
  context.set_output(0, x);
}

void compute(KernelContext& context) {
  const Tensor &x = context.input(0), &bias = context.input(1), &y = context.output(0);
  const double alpha = context.attributes().real("alpha");
  dispatch<float, double>(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t width = x.shape.back();
    context.parallel_for(x.elements(), 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T added = bias.present ? bias.as<T>()[i % width] : T{0};
        y.as<T>()[i] = static_cast<T>(alpha) * std::tanh(x.as<T>()[i]) + added;
      }
    });
  });
}

}  // namespace

MYOPS_OP(scaled_tanh) {
  return Op("scaled_tanh")
      .onnx("ScaledTanh", 1)
      .doc("alpha * tanh(x) + bias.")
      .type("T", {DType::Float32, DType::Float64})
      .input({"x", "T", "Any tensor of rank 1 or more."})
      .input(Input{"bias", "T", "One number for each place on the last axis."}.optional())
      .output({"y", "T", "Of the shape of x."})
      .attribute({"alpha", 1.0, "Factor."})
      .shape(shape)
      .kernel(compute);
}

}  // namespace myops
