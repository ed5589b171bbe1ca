// adjust: a list of steps on each number. Its attributes are of the kinds that ONNX has no simple
// place for: required, optional, lists of strings, ints from a list, floats of 64 bits, bounds.
#include <algorithm>
#include <cmath>

#include "myops/op.h"

namespace {
using namespace myops;

double adjusted(double value, const Attributes& attributes) {
  for (const std::string& step : attributes.texts("steps")) {
    if (step == "scale") value *= attributes.real("factor");
    if (step == "negate") value = -value;
    if (step == "shift" && attributes.has("shifts")) {
      for (const double shift : attributes.reals("shifts")) value += shift;
    }
  }
  if (attributes.has("power")) {
    const double base = value;
    value = 1;
    for (int64_t i = 0; i < attributes.integer("power"); ++i) value *= base;
  }
  if (attributes.has("limit")) {
    const double limit = attributes.real("limit");
    value = value > limit ? limit : value < -limit ? -limit : value;  // NaN stays
  }
  const double unit = std::ldexp(1.0, static_cast<int>(attributes.integer("bits")));
  return std::nearbyint(value * unit) / unit;
}

template <class T>
void compute(KernelContext& context) {
  const Tensor &x = context.input(0), &y = context.output(0);
  const Attributes& attributes = context.attributes();
  context.parallel_for(x.elements(), 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      y.as<T>()[i] = static_cast<T>(adjusted(static_cast<double>(x.as<T>()[i]), attributes));
    }
  });
}

}  // namespace

MYOPS_OP(adjust) {
  using Texts = std::vector<std::string>;
  return Op("adjust")
      .onnx("Adjust", 1)
      .doc("A list of steps on each number, then a power, a limit and rounding.")
      .type("T", {DType::Float32, DType::Float64})
      .input({"x", "T", "Any tensor."})
      .output({"y", "T", "Of the shape of x."})
      .attribute(Attribute{"steps", Texts(), "What is done, in order."}
                     .one_of(Texts{"scale", "shift", "negate"})
                     .required())
      .attribute(Attribute{"factor", 1.0 / 3, "Of \"scale\"."}.exact().above(0).below(1000))
      .attribute(Attribute{"shifts", std::vector<double>(), "Of \"shift\"."}.exact().optional())
      .attribute(
          Attribute{"power", int64_t{0}, "Of each number."}.at_least(0).at_most(3).optional())
      .attribute(Attribute{"limit", 0.0, "Of the size."}.above(0).optional())
      .attribute(Attribute{"bits", int64_t{16}, "Behind the point."}.one_of({4, 8, 16}))
      .attribute({"note", Texts{"plain"}, "For readers."})
      .shape("X... -> X...")
      .kernel(MYOPS_TYPED(compute, float, double));
}
