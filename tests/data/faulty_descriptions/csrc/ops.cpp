// A library with 160 ops that are sound, some whose code is wrong, and one whose description is
// wrong in the way that the environment variable MYOPS_FAULT names: compiled once for all tests.
#include <cstdlib>

#include "myops/op.h"

namespace myops {
namespace {

bool fault(const char* name) {
  const char* wanted = std::getenv("MYOPS_FAULT");
  return wanted != nullptr && std::string(wanted) == name;
}

void same_shape(ShapeContext& context) { context.set_output(0, context.dims(0)); }

template <class T>
void scale(KernelContext& context) {
  const Tensor &x = context.input(0), &y = context.output(0);
  const auto factor = static_cast<T>(context.attributes().real("factor"));
  for (int64_t i = 0; i < x.elements(); ++i) y.as<T>()[i] = factor * x.as<T>()[i];
}

Op sound(const char* name) {
  return Op(name)
      .doc("factor * x.")
      .type("T", {DType::Float32, DType::Float64})
      .input({"x", "T", "Any tensor."})
      .output({"y", "T", "Of the shape of x."})
      .attribute({"factor", 3.0, "A number."})
      .shape(same_shape)
      .kernel(MYOPS_TYPED(scale, float, double));
}

// Two overloads each, 320 in all.
#define SOUND(number) \
  MYOPS_OP(sound_##number) { return sound("sound_" #number); }
#define TEN(tens) \
  SOUND(tens##0)  \
  SOUND(tens##1)  \
  SOUND(tens##2)  \
  SOUND(tens##3)  \
  SOUND(tens##4)  \
  SOUND(tens##5)  \
  SOUND(tens##6)  \
  SOUND(tens##7)  \
  SOUND(tens##8)  \
  SOUND(tens##9)
TEN(0)
TEN(1)
TEN(2)
TEN(3)
TEN(4)
TEN(5)
TEN(6)
TEN(7)
TEN(8)
TEN(9)
TEN(10)
TEN(11)
TEN(12)
TEN(13)
TEN(14)
TEN(15)

MYOPS_OP(misspelt) {
  return sound("misspelt").onnx("Misspelt", 1).kernel([](KernelContext& context) {
    (void)context.attributes().real("fcator");
  });
}
MYOPS_OP(other_kind) {
  return sound("other_kind").onnx("OtherKind", 1).kernel([](KernelContext& context) {
    (void)context.attributes().integers("factor");
  });
}
MYOPS_OP(half_done) {
  return sound("half_done").onnx("HalfDone", 1).kernel([](KernelContext& context) {
    dispatch<float>(context.input(0).dtype, [](auto) {});
  });
}

MYOPS_OP(victim) {
  Op op = sound(fault("name") ? "vic-tim" : fault("twice") ? "misspelt" : "victim");
  if (fault("none")) return op;
  if (fault("node")) op.onnx_type = "Half Done";
  if (fault("shape")) op.shape_rule = nullptr;
  if (fault("kernel")) op.compute = nullptr;
  if (fault("inputs")) op.inputs.clear();
  if (fault("outputs")) op.outputs.clear();
  if (fault("empty type")) op.types[0].dtypes.clear();
  if (fault("undeclared type")) op.outputs[0].type = "U";
  if (fault("dtypes")) op.types[0].dtypes.push_back(DType::Int64);
  if (fault("rule")) return std::move(op).shape("N -> N M");
  if (fault("exception")) throw std::runtime_error("out of luck");
  if (fault("out")) op.attributes.push_back({"out", int64_t{1}, "As the argument of torch."});
  return op;
}

}  // namespace
}  // namespace myops
