// quantise: numbers in steps of a scale as int8, and in float8_e4m3fn; dequantise: back again.
#include <algorithm>
#include <cmath>

#include "myops/op.h"

namespace {
using namespace myops;

void quantise(KernelContext& context) {
  const Tensor& x = context.input(0);
  const Tensor &steps = context.output(0), &narrow = context.output(1);
  const auto scale = static_cast<float>(context.attributes().real("scale"));
  context.parallel_for(x.elements(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float scaled = x.as<float>()[i] / scale;
      const float whole = std::isnan(scaled) ? 0 : std::nearbyint(scaled);
      steps.as<int8_t>()[i] = static_cast<int8_t>(std::clamp(whole, -128.0f, 127.0f));
      narrow.as<Float8E4M3FN>()[i] = Float8E4M3FN(scaled);
    }
  });
}

template <class T>
void dequantise(KernelContext& context) {
  const Tensor &q = context.input(0), &x = context.output(0);
  const auto scale = static_cast<float>(context.attributes().real("scale"));
  context.parallel_for(q.elements(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      x.as<float>()[i] = static_cast<float>(q.as<T>()[i]) * scale;
    }
  });
}

}  // namespace

MYOPS_OP(quantise) {
  return Op("quantise")
      .onnx("Quantise", 1)
      .doc("Numbers in steps of a scale, in two dtypes of 8 bits.")
      .type("T", {DType::Float32})
      .type("S", {DType::Int8})
      .type("F", {DType::Float8E4M3FN})
      .input({"x", "T", "Any tensor."})
      .output({"steps", "S", "x / scale, rounded, from -128 to 127; 0 for NaN."})
      .output({"narrow", "F", "x / scale."})
      .attribute(Attribute{"scale", 1.0, "The size of a step; above 0."}.above(0))
      .shape("S... -> S..., S...")
      .kernel(quantise);
}

MYOPS_OP(dequantise) {
  return Op("dequantise")
      .onnx("Dequantise", 1)
      .doc("scale * q in float32.")
      .type("Q", {DType::Int8, DType::UInt8, DType::Float8E4M3FN, DType::Float8E5M2})
      .type("T", {DType::Float32})
      .input({"q", "Q", "Any tensor."})
      .output({"x", "T", "Of the shape of q."})
      .attribute(Attribute{"scale", 1.0, "The size of a step; above 0."}.above(0))
      .shape("S... -> S...")
      .kernel(MYOPS_TYPED(dequantise, int8_t, uint8_t, Float8E4M3FN, Float8E5M2));
}
