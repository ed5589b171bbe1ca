// soft_scale in two versions. Version 1 clipped at the limit; version 2 bends towards it, which is
// differentiable everywhere. Files of version 1 keep their meaning.
#include <algorithm>
#include <cmath>

#include "myops/op.h"

namespace {
using namespace myops;

void shape(ShapeContext& context) { context.set_output(0, context.dims(0)); }

template <class T, class Function>
void each(KernelContext& context, const Function& function) {
  const Tensor &x = context.input(0), &y = context.output(0);
  context.parallel_for(x.elements(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y.as<T>()[i] = function(x.as<T>()[i]);
  });
}

template <class T>
void clip(KernelContext& context) {
  const T limit = static_cast<T>(context.attributes().real("limit"));
  each<T>(context, [&](T x) { return std::isnan(x) ? x : std::min(std::max(x, -limit), limit); });
}

// x / sqrt(1 + (x / limit)^2)
template <class T>
void bend(KernelContext& context) {
  const T limit = static_cast<T>(context.attributes().real("limit"));
  if (context.attributes().flag("hard")) return clip<T>(context);
  each<T>(context, [&](T x) {
    const T ratio = x / limit;
    return std::isinf(ratio) ? std::copysign(limit, x) : limit * (ratio / std::hypot(T(1), ratio));
  });
}

}  // namespace

MYOPS_OP(soft_scale_1) {
  return Op("soft_scale_1")
      .onnx("SoftScale", 1)
      .doc("Limits each element: clips it.")
      .type("T", {DType::Float32, DType::Float64})
      .input({"x", "T", "Any tensor."})
      .output({"y", "T", "Of the shape of x."})
      .attribute(Attribute{"limit", 1.0, "What |y| does not exceed."}.above(0))
      .shape(shape)
      .kernel(MYOPS_TYPED(clip, float, double));
}

MYOPS_OP(soft_scale) {
  return Op("soft_scale")
      .onnx("SoftScale", 2)
      .doc("Limits each element smoothly.")
      .type("T", {DType::Float32, DType::Float64})
      .input({"x", "T", "Any tensor."})
      .output({"y", "T", "Of the shape of x."})
      .attribute(Attribute{"limit", 1.0, "What |y| does not exceed."}.above(0))
      .attribute({"hard", false, "Clips, as version 1 did."})
      .shape(shape)
      .kernel(MYOPS_TYPED(bend, float, double));
}
