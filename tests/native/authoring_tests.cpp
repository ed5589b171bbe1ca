// The SDK for authors of ops: shape rules with names of lengths, bounds of attributes, typed
// scratch memory, descriptions of gradients.
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
  same(
      lost,
      "splat: the shape rule asks for the length \"C\", which no input of this call has: it stands "
      "in the patterns of optional inputs alone");
}

// An op with two inputs and the attributes of rules that compute.
Op computing(const std::string& rule) {
  return Op("op")
      .type("T", {DType::Float32})
      .input({"a", "T", "."})
      .input(Input{"b", "T", "."}.optional())
      .output({"y", "T", "."})
      .attribute({"s", int64_t{2}, "."})
      .attribute({"steps", std::vector<int64_t>{3, 4}, "."})
      .attribute({"real", 1.0, "."})
      .shape(rule.c_str())
      .kernel(nothing);
}

std::string computed(const std::string& rule, std::optional<Dims> a, std::optional<Dims> b,
                     int64_t s = 2) {
  try {
    const Op op = computing(rule);
    check_description(op);
    Attributes attributes(op.attributes);
    attributes.set(0, s);
    ShapeContext context(op, attributes);
    context.inputs_ = {std::move(a), std::move(b)};
    context.dtypes_ = {DType::Float32, std::nullopt};
    context.values_ = {std::nullopt, std::nullopt};
    infer(op, attributes, context);
    return shape_text(*context.output(0));
  } catch (const Error& error) {
    return error.what();
  }
}

void test_rules_that_compute() {
  const Dims a{7, 5, 3}, b{4, 2};
  same(computed("... H W, K 2 -> ... (H * 2 + 1) (W * K)", a, b), "[7, 11, 12]");
  same(computed("A B C, D E -> {A // s} {A % s} {-(-A // s)} (max(B, D, 6) - min(C, 1))", a, b),
       "[3, 1, 4, 5]");
  same(computed("A B C, D E -> {A // steps[0]} {steps[1]} s {s}", a, b), "[2, 4, 2, 2]");
  same(computed("S... C, ... -> ... S... (C)", a, b), "[4, 2, 7, 5, 3]");
  same(computed("... C, ... 1 -> ...", a, Dims{1, 5, 1}), "[7, 5]");
  same(computed("..., ... -> ...", a, Dims{5, 1}), "[7, 5, 3]");
  same(computed("..., ... -> ...", Dims{5, 1}, a), "[7, 5, 3]");
  same(computed("..., ... -> ...", Dims{Dim("n"), 3}, Dims{4, 1, 3}), "[4, n, 3]");
  same(computed("..., ... -> ...", Dims{Dim("n"), 3}, Dims{4, 3}), "[4, 3]");
  same(computed("..., ... -> ...", Dims{Dim("n")}, Dims{Dim("m")}), "[?]");
  same(computed("A, B -> A (A) (A + B) 3", Dims{Dim("n")}, Dims{4}), "[n, n, ?, 3]");
  same(computed("A B, (A * 2) {B // s} -> A", Dims{3, 5}, Dims{6, 2}), "[3]");
  same(computed("A B, (A * 2) {B // s} -> A", Dims{3, 5}, Dims{6, 3}),
       "op: b: got shape [6, 3], expected [(A * 2), {B // s}] with A = 3, B = 5, s = 2");
  same(computed("A, S... 2 -> S...", Dims{3}, Dims{2}), "[]");
  same(computed("C ... , D -> ... C", a, Dims{2}), "[5, 3, 7]");
  same(computed("S..., S... -> S...", Dims{3, 5}, Dims{3}),
       "op: b: got shape [3], expected [S...] with S = [3, 5]");
  same(computed("..., ... -> ...", a, Dims{4}), "op: b: got length 4 on axis 0, expected 1 or 3");
  same(computed("... C H, B -> C", Dims{3}, b), "op: a: got shape [3], expected [..., C, H]");
  same(computed("A, B -> (A - B)", Dims{3}, Dims{5}),
       "op: shape: got a length of -2 from (A - B) with A = 3, B = 5, expected 0 or more");
  same(computed("A, B -> {A // s}", Dims{3}, Dims{5}, 0),
       "op: shape: got a division by 0 in {A // s} with A = 3, s = 0, expected another number "
       "there");
  same(computed("A, B -> {(A - 9) // s} ", Dims{3}, Dims{5}, -2), "[3]");
  same(computed("A, B -> s", Dims{3}, Dims{5}, -2),
       "op: shape: got a length of -2 from s with s = -2, expected 0 or more");
  same(computed("A, B -> (A * 999999999999 * 999999999999)", Dims{3}, Dims{5}),
       "op: shape: got a number beyond 2^63 in (A * 999999999999 * 999999999999), expected a "
       "length");
  same(computed("A, B -> {steps[2]}", Dims{3}, Dims{5}),
       "op: steps: got 2 numbers, expected at least 3");
}

// "N ->" is one output without axes, or none where the op has none.
void test_rules_of_no_output() {
  Op op = Op("move_")
              .type("T", {DType::Float32})
              .input(Input{"x", "T", "."}.written())
              .input({"by", "T", "."})
              .shape("S..., S... ->")
              .kernel(nothing);
  check_description(op);
  const Op functional = functional_of(op).onnx("Move", 1);
  check_description(functional);
  const Attributes attributes(op.attributes);
  const auto infers = [&](const Op& called, const Dims& by) {
    ShapeContext context(called, attributes);
    context.inputs_ = {Dims{3, 4}, by};
    context.dtypes_ = {DType::Float32, DType::Float32};
    context.values_ = {std::nullopt, std::nullopt};
    try {
      infer(called, attributes, context);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return str(context.outputs_.size(), " outputs");
  };
  same(infers(op, {3, 4}), "0 outputs");
  same(infers(op, {3, 5}), "move_: by: got shape [3, 5], expected [S...] with S = [3, 4]");
  same(infers(functional, {3, 4}), "1 outputs");
  same(infers(functional, {3, 5}), "move: by: got shape [3, 5], expected [S...] with S = [3, 4]");
  same(computed("A, B ->", Dims{3}, Dims{5}), "[]");
  same(
      computed("A, B -> B", Dims{3}, std::nullopt),
      "op: the shape rule asks for the length \"B\", which no input of this call has: it stands in "
      "the patterns of optional inputs alone");
}

void test_wrong_rules_are_refused() {
  const auto fault = [](const char* rule) { return computed(rule, Dims{3}, std::nullopt); };
  same(
      fault("A, B -> (A + C)"),
      "op: the shape rule \"A, B -> (A + C)\" has the length \"C\" in an output, expected one that "
      "an input has");
  same(
      fault("A, B -> real"),
      "op: the shape rule \"A, B -> real\" has the length \"real\" in an output, expected one that "
      "an input has");
  same(fault("A, (C * 2) -> A"),
       "op: the shape rule \"A, (C * 2) -> A\" has the length \"C\" in an input, expected one that "
       "is bound there");
  same(fault("... S..., B -> B"),
       "op: the shape rule \"... S..., B -> B\" has two words that stand for any number of axes in "
       "one input");
  same(fault("A, B -> ..."),
       "op: the shape rule \"A, B -> ...\" has \"...\" in an output, expected one that an input "
       "has");
  for (const char* rule :
       {"A, B -> (A", "A, B -> (A +)", "A, B -> A +", "A, B -> ()", "A, B -> {A / 2}",
        "A, B -> A -> B", "A, B -> (A B)", "A, B -> 99999999999999", "A, B -> s[",
        "A, B -> (min(A)", "A, B -> $"}) {
    const std::string text = fault(rule);
    const std::string begin = str("op: the shape rule ", quoted(rule), ": got ");
    expect(text.compare(0, begin.size(), begin) == 0, str(rule, ": ", text));
  }
  const std::string deep = "A, B -> " + std::string(100, '(') + "A" + std::string(100, ')');
  expect(fault(deep.c_str()).find("at most 50 brackets") != std::string::npos, "many brackets");
}

void test_rules_with_other_counts_are_refused() {
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

void test_views() {
  std::vector<float> numbers = {0, 1, 2, 3, 4, 5};
  const View<const float, 3> lower(Tensor(numbers.data(), DType::Float32, Shape{2, 3}));
  expect(lower.length(0) == 1 && lower(7, 1, 2) == 5, "an index of a missing axis changes nothing");
  try {
    const View<const float, 1> higher(Tensor(numbers.data(), DType::Float32, Shape{2, 3}));
    expect(false, str("rank 2 in a view of rank 1: no error, ", higher(1)));
  } catch (const Mistake& mistake) {
    const std::string text = mistake.what();
    expect(text.find("View: got a tensor of rank 2, expected rank 1 or less") == 0, text);
  }
}

}  // namespace

int main() {
  test_rules();
  test_rules_that_compute();
  test_rules_of_no_output();
  test_wrong_rules_are_refused();
  test_rules_with_other_counts_are_refused();
  test_bounds();
  test_gradients_are_described();
  test_scratch_arrays();
  test_views();
  return finish("authoring tests");
}
