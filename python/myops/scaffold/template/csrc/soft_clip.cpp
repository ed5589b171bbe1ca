// soft_clip: y = limit * tanh(x / limit).
#include <cmath>

#include "myops/op.h"

namespace {
using namespace myops;

// Refuses what makes no sense, and says what comes out; the same text in every runtime.
void shape(ShapeContext& context) {
  const double limit = context.attributes().real("limit");
  MYOPS_EXPECT(context, limit > 0, "limit", str(limit), "a number above 0");
  context.set_output(0, context.dims(0));
}

// Dtypes and attributes have been checked, and the output is allocated.
void compute(KernelContext& context) {
  const Tensor &x = context.input(0), &y = context.output(0);
  dispatch<float, double>(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T limit = static_cast<T>(context.attributes().real("limit"));
    context.parallel_for(x.elements(), 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        y.as<T>()[i] = limit * std::tanh(x.as<T>()[i] / limit);
      }
    });
  });
}

}  // namespace

MYOPS_OP(soft_clip) {
  return Op("soft_clip")
      .onnx("SoftClip", 1)
      .doc("limit * tanh(x / limit), element by element.")
      .type("T", {DType::Float32, DType::Float64})
      .input({"x", "T", "Any tensor."})
      .output({"y", "T", "Of the shape of x."})
      .attribute({"limit", 1.0, "What |y| stays below; above 0."})
      .shape(shape)
      .kernel(compute);
}
