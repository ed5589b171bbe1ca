// masked_fill: a number in place of each element whose mask is true. The mask is a tensor of bool.
#include "myops/op.h"

namespace {
using namespace myops;

template <class T>
void compute(KernelContext& context) {
  const Tensor &x = context.input(0), &mask = context.input(1), &y = context.output(0);
  const T value = static_cast<T>(context.attributes().real("value"));
  context.parallel_for(x.elements(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      y.as<T>()[i] = mask.as<bool>()[i] ? value : x.as<T>()[i];
    }
  });
}

}  // namespace

MYOPS_OP(masked_fill) {
  return Op("masked_fill")
      .onnx("MaskedFill", 1)
      .doc("A number in place of each element whose mask is true.")
      .type("T", {DType::Float32, DType::Float64, DType::Int16})
      .type("M", {DType::Bool})
      .input({"x", "T", "Any tensor."})
      .input({"mask", "M", "Of the shape of x."})
      .output({"y", "T", "Of the shape of x."})
      .attribute({"value", 0.0, "What stands where the mask is true."})
      .shape("S..., S... -> S...")
      .kernel(MYOPS_TYPED(compute, float, double, int16_t));
}
