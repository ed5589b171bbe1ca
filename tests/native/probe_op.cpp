// An op for tests of the adapters: it has every kind of attribute, optional inputs in the middle,
// two type parameters and two outputs, and it reports the arguments that it received.
#include "myops/op.h"

namespace myops {
namespace {

// report = [flag, integer, real, length of text, present inputs as bits, ints..., floats...,
//           hints...]
constexpr int64_t kFixed = 5;

void shape(ShapeContext& context) {
  MYOPS_EXPECT(context, context.dims(0).size() <= 4, "x", str("rank ", context.dims(0).size()),
               "rank at most 4");
  context.set_output(0, context.dims(0));
  Dim length(kFixed + static_cast<int64_t>(context.attributes().integers("ints").size() +
                                           context.attributes().reals("floats").size()));
  if (context.has(1)) {
    length = context.values(1) ? Dim(length.value + static_cast<int64_t>(context.values(1)->size()))
                               : Dim();
  }
  context.set_output(1, {length});
}

void compute(KernelContext& context) {
  const Attributes& attributes = context.attributes();
  const Tensor &x = context.input(0), &y = context.output(0);
  if (attributes.text("text") == "throw") throw std::runtime_error("the kernel gave up");
  if (attributes.text("text") == "throw in a piece") {
    context.parallel_for(8, 1, [](int64_t begin, int64_t) {
      if (begin >= 3) throw std::runtime_error(str("piece ", begin, " gave up"));
    });
  }
  if (attributes.text("text") == "exhaust memory") std::vector<char>(size_t{1} << 62);
  std::memcpy(y.data, x.data, static_cast<size_t>(x.elements()) * dtype_size(x.dtype));

  double bits = 0;
  for (size_t i = 0; i < 4; ++i) bits += context.input(i).present ? 1 << i : 0;
  std::vector<double> report = {
      attributes.flag("flag") ? 1.0 : 0.0, static_cast<double>(attributes.integer("integer")),
      attributes.real("real"), static_cast<double>(attributes.text("text").size()), bits};
  for (int64_t value : attributes.integers("ints")) report.push_back(static_cast<double>(value));
  for (double value : attributes.reals("floats")) report.push_back(value);
  if (context.input(1).present) {
    for (double value : read_values(context.input(1))) report.push_back(value);
  }
  std::memcpy(context.output(1).data, report.data(), report.size() * sizeof(double));
}

MYOPS_OP(probe) {
  return Op("probe")
      .onnx("Probe", 1)
      .doc("Reports what arrived.")
      .type("T", {DType::Float16, DType::Float32, DType::UInt8, DType::Int64})
      .type("H", {DType::Float32, DType::Float64, DType::Int64})
      .type("R", {DType::Float64})
      .input({"x", "T", "Copied to y."})
      .input(Input{"hints", "H", "Numbers for the report."}.optional().values())
      .input(Input{"mask", "T", "Not read."}.optional())
      .input(Input{"weight", "H", "Not read."}.optional())
      .output({"y", "T", "x."})
      .output({"report", "R", "What arrived."})
      .attribute({"flag", false, "A bool."})
      .attribute({"integer", int64_t{7}, "An int."})
      .attribute({"real", 0.5, "A float."})
      .attribute({"text", std::string("word"), "A string."})
      .attribute({"choice", std::string("left"), "One of two.", {"left", "right"}})
      .attribute({"ints", std::vector<int64_t>{1, 2}, "A list of ints."})
      .attribute({"floats", std::vector<double>{0.25}, "A list of floats."})
      .shape(shape)
      .kernel(compute);
}

// A bare op of another name, to see that ops without a node are skipped.
MYOPS_OP(probe_backward) {
  return Op("probe_backward")
      .doc("Has no node.")
      .type("T", {DType::Float32})
      .input({"x", "T", "Anything."})
      .output({"y", "T", "Nothing."})
      .shape(shape)
      .kernel(compute);
}

}  // namespace
}  // namespace myops
