// Ops that add a number, as a generator of code would write them, in any number.
#pragma once

#include "myops/op.h"

namespace {

inline void shape(myops::ShapeContext& context) { context.set_output(0, context.dims(0)); }

inline void add_number(myops::KernelContext& context) {
  const float* x = context.input(0).as<float>();
  float* y = context.output(0).as<float>();
  const auto number = static_cast<float>(context.attributes().integer("number"));
  for (int64_t i = 0; i < context.input(0).elements(); ++i) y[i] = x[i] + number;
}

inline myops::Op numbered(const char* name, const char* onnx_type, int64_t number) {
  using namespace myops;
  return Op(name)
      .onnx(onnx_type, 1)
      .doc("Adds a number.")
      .type("T", {DType::Float32})
      .input({"x", "T", "Any tensor."})
      .output({"y", "T", "Of the shape of x."})
      .attribute({"number", number, "What is added."})
      .shape(shape)
      .kernel(add_number);
}

}  // namespace

#define NUMBERED(number) \
  MYOPS_OP(add_##number) { return numbered("add_" #number, "Add" #number, number); }
