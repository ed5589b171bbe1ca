// What the SDK gives authors of ops: rules by the names of lengths, bounds of attributes, typed
// scratch memory, descriptions of gradients.
#include <functional>
#include <vector>

#include "checking.h"
#include "myops/op.h"

namespace {

using namespace myops;

void nothing(KernelContext&) {}

Op described(const char* rule) {
  return Op("splat")
      .type("T", {DType::Float32})
      .type("I", {DType::Int64})
      .input({"points", "T", "[N, P, 3]"})
      .input(Input{"features", "T", "[N, P, C]"}.optional())
      .input(Input{"size", "I", "Height and width."}.optional().values())
      .output({"image", "T", "[N, C, H, W]"})
      .attribute(Attribute{"radius", 1.5, "Above 0."}.above(0))
      .attribute(Attribute{"steps", std::vector<int64_t>{1, 2}, "1 or more."}.at_least(1))
      .shape(rule)
      .kernel(nothing);
}

constexpr const char* kRule = "N P 3, N P C, {H W} -> N C H W";

struct Call {
  std::optional<Dims> points, features;
  std::optional<int64_t> count;  // of the numbers in size
  std::optional<std::vector<double>> size;
};

std::string inferred(const Op& op, const Call& call, const Attributes& attributes) {
  ShapeContext context(op, attributes);
  context.inputs_ = {call.points, call.features, std::nullopt};
  if (call.count) context.inputs_[2] = Dims{*call.count};
  context.dtypes_ = {DType::Float32, std::nullopt, std::nullopt};
  context.values_ = {std::nullopt, std::nullopt, call.size};
  try {
    infer(op, attributes, context);
  } catch (const Error& error) {
    return error.what();
  }
  return context.output(0) ? shape_text(*context.output(0)) : "nothing";
}

void same(const std::string& got, const std::string& expected) {
  expect(got == expected, "got \"" + got + "\", expected \"" + expected + "\"");
}

void test_rules() {
  const Op op = described(kRule);
  const Attributes attributes(op.attributes);
  const Dims points{2, 5, 3};
  using Numbers = std::vector<double>;
  same(inferred(op, {points, Dims{2, 5, 4}, 2, Numbers{6, 7}}, attributes), "[2, 4, 6, 7]");
  same(inferred(op, {points, Dims{2, 5, 4}, 2, std::nullopt}, attributes), "[2, 4, ?, ?]");
  same(inferred(op, {Dims{Dim("n"), Dim("p"), 3}, Dims{Dim("n"), 5, Dim("c")}, 2, Numbers{6, 0}},
                attributes),
       "[n, c, 6, 0]");
  same(inferred(op, {points, Dims{2, 6, 4}, 2, Numbers{6, 7}}, attributes),
       "splat: features: got shape [2, 6, 4], expected [N, P, C] with N = 2, P = 5");
  same(inferred(op, {Dims{2, 5, 2}, Dims{2, 5, 4}, 2, Numbers{6, 7}}, attributes),
       "splat: points: got shape [2, 5, 2], expected [N, P, 3]");
  same(inferred(op, {points, Dims{2, 5, 4}, 3, Numbers{6, 7, 8}}, attributes),
       "splat: size: got 3 numbers, expected lengths [H, W]");
  same(inferred(op, {points, Dims{2, 5, 4}, 3, std::nullopt}, attributes),
       "splat: size: got 3 numbers, expected lengths [H, W]");
  for (const double bad : {-1.0, 0.5, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    same(inferred(op, {points, Dims{2, 5, 4}, 2, Numbers{6, bad}}, attributes),
         str("splat: size: got [6, ", bad, "], expected lengths [H, W]"));
  }
  const std::string lost = inferred(op, {points, std::nullopt, 2, Numbers{6, 7}}, attributes);
  same(lost, "splat: the shape rule asks for the length \"C\", which none of its patterns has");
}

void test_rules_that_do_not_fit() {
  const Op few = described("N P 3 -> N");
  const Attributes attributes(few.attributes);
  same(inferred(few, {Dims{2, 5, 3}, Dims{2, 5, 4}, 2, std::nullopt}, attributes),
       "splat: the shape rule \"N P 3 -> N\" has 1 inputs and 1 outputs, expected 3 and 1");
}

void test_bounds() {
  const Op op = described(kRule);
  const Call call{Dims{2, 5, 3}, Dims{2, 5, 4}, 2, std::vector<double>{6, 7}};
  const auto with = [&](size_t place, AttributeValue value) {
    Attributes attributes(op.attributes);
    attributes.set(place, std::move(value));
    return inferred(op, call, attributes);
  };
  same(with(0, 0.25), "[2, 4, 6, 7]");
  same(with(0, 0.0), "splat: radius: got 0, expected a number above 0");
  same(with(0, -0.5), "splat: radius: got -0.5, expected a number above 0");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  same(with(0, nan), str("splat: radius: got ", nan, ", expected a number above 0"));
  same(with(1, std::vector<int64_t>{3, 1}), "[2, 4, 6, 7]");
  same(with(1, std::vector<int64_t>{}), "[2, 4, 6, 7]");
  same(with(1, std::vector<int64_t>{3, 0}), "splat: steps: got 0, expected a number not below 1");
}

void test_gradients_are_described() {
  const Op op = backward_of(described(kRule), {"points", "features"});
  expect(op.name == "splat_backward" && op.onnx_type.empty(), "name and node");
  expect(op.inputs.size() == 4 && op.inputs[0].name == "grad_image", "inputs");
  expect(op.outputs.size() == 2 && op.outputs[1].name == "grad_features", "outputs");
  const Attributes attributes(op.attributes);
  ShapeContext context(op, attributes);
  context.inputs_ = {Dims{2, 4, 6, 7}, Dims{2, 5, 3}, Dims{2, 5, 4}, Dims{2}};
  context.dtypes_ = {DType::Float32, DType::Float32, DType::Float32, DType::Int64};
  context.values_ = {std::nullopt, std::nullopt, std::nullopt, std::vector<double>{6, 7}};
  infer(op, attributes, context);
  same(shape_text(*context.output(0)) + shape_text(*context.output(1)), "[2, 5, 3][2, 5, 4]");
  context.inputs_[0] = Dims{2, 4, 7, 6};
  try {
    infer(op, attributes, context);
    expect(false, "a gradient of another shape: no error");
  } catch (const Error& error) {
    same(error.what(),
         "splat_backward: grad_image: got shape [2, 4, 7, 6], expected [2, 4, 6, 7], the shape of "
         "image");
  }
}

class NoRuntime final : public Runtime {
 public:
  Tensor allocate(size_t, DType, const Shape&, Layout) override { return {}; }
  void run(int64_t, Task, void*) override {}
};

void test_scratch_arrays() {
  const Op op = described(kRule);
  const TensorPointers inputs;
  Tensors outputs;
  const Attributes attributes(op.attributes);
  NoRuntime runtime;
  const KernelContext context(op, inputs, outputs, attributes, runtime, nullptr);
  const auto filled = context.scratch_array<float>(1000, 2.5f);
  float sum = 0;
  for (const float number : filled) sum += number;
  expect(sum == 2500 && filled.size() == 1000 && filled[999] == 2.5f, "a filled array");
  expect(context.scratch_array<int64_t>(0).size() == 0, "an empty array");
  // Neither 2^62 * 8 nor -1 * 8 bytes fit an integer: refused, not wrapped around.
  for (const int64_t count : {int64_t{1} << 62, int64_t{-1}}) {
    try {
      context.scratch_array<double>(count);
      expect(false, str(count, " elements: no error"));
    } catch (const Error& error) {
      const std::string text = error.what();
      expect(text.find("splat: inputs: got scratch memory") == 0, text);
    }
  }
}

}  // namespace

int main() {
  test_rules();
  test_rules_that_do_not_fit();
  test_bounds();
  test_gradients_are_described();
  test_scratch_arrays();
  return finish("authoring tests");
}
