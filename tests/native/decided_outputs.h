// An op whose outputs have lengths that its kernel decides, and a runtime for its calls.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checking.h"
#include "myops/op.h"

namespace decided_outputs {

using namespace myops;

class TestRuntime final : public Runtime {
 public:
  Tensor allocate(size_t output, DType dtype, const Shape& shape, Layout layout) override {
    if (output >= memory.size()) memory.resize(output + 1), shapes.resize(output + 1);
    memory[output].assign(byte_count(shape, dtype), 0);
    shapes[output] = shape;
    return Tensor(memory[output].data(), dtype, shape, layout);
  }
  void leave_out(size_t output, DType) override { left_out.push_back(output); }
  void begin_kernel() override { ++begun; }
  void run(int64_t count, Task task, void* argument) override {
    for (int64_t i = 0; i < count; ++i) task(argument, i);
  }

  std::vector<std::vector<uint8_t>> memory;
  std::vector<Shape> shapes;
  std::vector<size_t> left_out;
  int begun = 0;
};

inline void same(const std::string& got, const std::string& wanted) {
  expect(got == wanted, "got \"" + got + "\", expected \"" + wanted + "\"");
}

// The code of the op's kernel, which tests replace.
inline std::function<void(KernelContext&)> body;

inline Op described() {
  return Op("pairs")
      .type("T", {DType::Float32})
      .type("I", {DType::Int64})
      .input({"x", "T", "[N]."})
      .output({"values", "T", "[K, 2]."})
      .output({"places", "I", "[K]."})
      .shape([](ShapeContext& context) {
        const Dim kept = Dim::at_most(context.dims(0)[0], "K");
        context.set_output(0, {kept, 2});
        context.set_output(1, {kept});
      })
      .kernel([](KernelContext& context) { body(context); });
}

inline std::vector<float> numbers = {1, 2, 3};

inline std::string call(const Op& op, TestRuntime& runtime, size_t inputs = 1) {
  const Tensors tensors(inputs, Tensor(numbers.data(), DType::Float32, {3}));
  try {
    check_description(op);
    invoke(op, tensors, Attributes(op.attributes), runtime);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

inline std::string call(const std::function<void(KernelContext&)>& with) {
  body = with;
  TestRuntime runtime;
  return call(described(), runtime);
}

}  // namespace decided_outputs
