// blend: a weighted sum of any number of tensors; without weights, their sum.
#include "myops/op.h"

namespace {
using namespace myops;

void shape(ShapeContext& context) {
  follow(context, "C, S... -> S...");
  if (!context.has(0) || !context.dims(0)[0].known()) return;
  const Dims& weights = context.dims(0);
  const auto tensors = static_cast<int64_t>(context.input_count()) - 1;
  MYOPS_EXPECT(context, weights[0].value == tensors, "weights", "shape " + shape_text(weights),
               str("[", tensors, "], one for each tensor"));
}

template <class T>
void compute(KernelContext& context) {
  const Tensor& weights = context.input(0);
  const size_t count = context.input_count() - 1;
  T* out = context.output(0).as<T>();
  context.parallel_for(context.output(0).elements(), 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T sum = 0;
      for (size_t k = 0; k < count; ++k) {
        const T weight = weights.present ? weights.as<T>()[k] : T(1);
        sum += weight * context.input(k + 1).template as<T>()[i];
      }
      out[i] = sum;
    }
  });
}

}  // namespace

MYOPS_OP(blend) {
  return Op("blend")
      .onnx("Blend", 1)
      .doc("A weighted sum of tensors.")
      .type("T", {DType::Float32, DType::Float64})
      .input(Input{"weights", "T", "[C], one for each tensor."}.optional())
      .input(Input{"tensors", "T", "Of one shape."}.variadic())
      .output({"sum", "T", "Of this shape."})
      .shape(shape)
      .kernel(MYOPS_TYPED(compute, float, double));
}
