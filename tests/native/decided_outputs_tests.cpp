// Lengths that a kernel decides, lists of tensors, optional outputs and written inputs, in calls
// that are right and in those that are not.
#include <functional>
#include <vector>

#include "checking.h"
#include "myops/op.h"

namespace {

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

void same(const std::string& got, const std::string& wanted) {
  expect(got == wanted, "got \"" + got + "\", expected \"" + wanted + "\"");
}

// What the kernel of the op below does; tests change it.
std::function<void(KernelContext&)> body;

Op described() {
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

std::vector<float> numbers = {1, 2, 3};

std::string call(const Op& op, TestRuntime& runtime, size_t inputs = 1) {
  const Tensors tensors(inputs, Tensor(numbers.data(), DType::Float32, {3}));
  try {
    check_description(op);
    invoke(op, tensors, Attributes(op.attributes), runtime);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string call(const std::function<void(KernelContext&)>& with) {
  body = with;
  TestRuntime runtime;
  return call(described(), runtime);
}

void test_a_length_is_said() {
  body = [](KernelContext& context) {
    expect(!context.output(0).present && !context.output(1).present, "made before the kernel");
    context.set_length("K", 2);
    context.output(1).as<int64_t>()[1] = 7;
    expect(context.output(0).shape == Shape{2, 2}, "the shape of values");
  };
  TestRuntime runtime;
  same(call(described(), runtime), "");
  expect(runtime.shapes[0] == Shape{2, 2} && runtime.shapes[1] == Shape{2}, "shapes");
  expect(runtime.memory[1].size() == 16 && runtime.memory[1][8] == 7, "what the kernel wrote");
  expect(runtime.begun == 1, "the runtime hears of it once");
  same(call([](KernelContext& context) {
         context.allocate_output(0, {0, 2});
         context.allocate_output(1, {0});
       }),
       "");
}

void test_wrong_lengths_are_refused() {
  same(
      call([](KernelContext& context) { context.set_length("K", 4); }),
      "pairs: values: got length 4 on axis 0 from the kernel, expected at most 3, the bound in the "
      "shape rule");
  same(call([](KernelContext& context) { context.set_length("K", -1); }),
       "pairs: values: got length -1 on axis 0 from the kernel, expected 0 or more");
  same(call([](KernelContext& context) { context.set_length("L", 1); }),
       "pairs: kernel: got set_length of \"L\", expected the name of a length in "
       "Dim::at_most(bound, name)");
  same(
      call([](KernelContext& context) {
        context.allocate_output(0, {2, 2});
        context.allocate_output(1, {1});
      }),
      "pairs: places: got length 1 on axis 0 from the kernel, expected 2, what the kernel said for "
      "\"K\" before");
  same(
      call([](KernelContext& context) { context.allocate_output(0, {2, 3}); }),
      "pairs: values: got shape [2, 3] from the kernel, expected [-1, 2], where -1 is a length for "
      "the kernel to decide");
  same(call([](KernelContext& context) { context.allocate_output(0, {2, 2}); }),
       "pairs: places: got no length from the kernel, expected a call of allocate_output or "
       "set_length, also where the length is 0");
  same(call([](KernelContext& context) {
         context.set_length("K", 1);
         context.allocate_output(0, {1, 2});
       }),
       "pairs: values: got a call of allocate_output, expected one call of allocate_output or "
       "set_length for it");
}

void test_a_rule_that_knows_every_length() {
  Op op = described().shape([](ShapeContext& context) {
    context.set_output(0, {3, 2});
    context.set_output(1, {3});
  });
  body = [](KernelContext& context) { context.set_length("K", 1); };
  TestRuntime runtime;
  expect(call(op, runtime).find("pairs: kernel: got a call of allocate_output") == 0, "refused");
}

void test_lists() {
  Op op = described().input(Input{"others", "T", "[N] each."}.variadic());
  body = [](KernelContext& context) {
    context.set_length("K", (int64_t)context.input_count() - 2);
  };
  for (const size_t inputs : {2, 3, 5}) {
    TestRuntime runtime;
    same(call(op, runtime, inputs), "");
    expect(runtime.shapes[1] == Shape{static_cast<int64_t>(inputs) - 2}, "one length for each");
  }
  TestRuntime runtime;
  same(call(op, runtime, 1),
       "pairs: others: got an empty list, expected a list of at least one tensor");
  same(op.input_name(3), "others[2]");
  const Op first = Op(op).input({"last", "T", "[N]."});
  same(call(first, runtime, 3),
       "pairs: others: got a variadic input before others, expected it to be the last, as in ONNX");
}

void test_optional_outputs() {
  Op op = described();
  op.outputs[1].condition = "flag";
  TestRuntime runtime;
  same(call(op, runtime),
       "pairs: places: got only_if of \"flag\", expected the name of an optional input, or of an "
       "attribute that is a bool");
  op = std::move(op).attribute({"flag", false, "Whether places is computed."});
  body = [](KernelContext& context) {
    context.set_length("K", 1);
    expect(context.output(0).present && !context.output(1).present, "left out");
  };
  same(call(op, runtime), "");
  expect(runtime.left_out == std::vector<size_t>{1}, "the runtime hears of it");
}

Op writing() {
  return Op("twice_")
      .type("T", {DType::Float32})
      .input(Input{"x", "T", "[N]."}.written())
      .shape([](ShapeContext&) {})
      .kernel([](KernelContext& context) {
        const Tensor& x = context.input(0);
        for (int64_t i = 0; i < x.elements(); ++i) x.as<float>()[i] *= 2;
      });
}

void test_writes() {
  const std::vector<float> before = numbers;
  const Op functional = functional_of(writing()).onnx("Twice", 1);
  TestRuntime runtime;
  same(call(functional, runtime), "");
  expect(functional.name == "twice" && functional.outputs[0].name == "x_out", "its names");
  expect(numbers == before, "the input stays as it is");
  expect(reinterpret_cast<const float*>(runtime.memory[0].data())[2] == 6, "what would be written");
  same(call(writing(), runtime), "");
  expect(numbers == std::vector<float>{2, 4, 6}, "written");
  Op strided = writing();
  strided.inputs[0].access_mode = Access::Strided;
  const Tensors row{Tensor(numbers.data(), DType::Float32, {3, 2}, Shape{1, 0})};
  try {
    invoke(strided, row, Attributes(strided.attributes), runtime);
    expect(false, "one place for several elements is refused");
  } catch (const Error& error) {
    same(error.what(),
         "twice_: x: got one place in memory for the elements along axis 1, expected a place for "
         "each, because the op writes into them; make a copy");
  }
  same(call(writing().onnx("Twice", 1), runtime),
       "twice_: x: got an input that is written in an op with the node Twice, expected no node, "
       "because nodes write nothing; give it to the op of functional_of()");
}

}  // namespace

int main() {
  test_a_length_is_said();
  test_wrong_lengths_are_refused();
  test_a_rule_that_knows_every_length();
  test_lists();
  test_optional_outputs();
  test_writes();
  return finish("tests of unusual outputs and inputs");
}
