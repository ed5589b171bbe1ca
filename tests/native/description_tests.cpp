// Mistakes in the descriptions of ops: each is named when the library is loaded, or at the latest
// when the op is called, and no mistake ends the process. This program is such a library: a
// stand-in for ONNX Runtime refuses it with a list of all mistakes.
#include <functional>

#include "../../csrc/core/dispatcher_schema.h"
#include "checking.h"
#include "fake_ort.h"
#include "myops/op.h"

namespace {

using namespace myops;

void same_shape(ShapeContext& context) { context.set_output(0, context.dims(0)); }
void nothing(KernelContext&) {}

Op sound(const char* name = "scale") {
  return Op(name)
      .onnx("Scale", 1)
      .type("T", {DType::Float32, DType::Float64})
      .input({"x", "T", "."})
      .output({"y", "T", "."})
      .attribute({"factor", 1.0, "."})
      .shape(same_shape)
      .kernel(nothing);
}

template <class T>
void typed(KernelContext&) {}

std::string text_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

void same(const std::string& got, const std::string& expected) {
  expect(got == expected, "got \"" + got + "\", expected \"" + expected + "\"");
}

class NoRuntime final : public Runtime {
 public:
  Tensor allocate(size_t, DType dtype, const Shape& shape, Layout) override {
    return Tensor(nullptr, dtype, shape);
  }
  void run(int64_t count, Task task, void* argument) override {
    for (int64_t i = 0; i < count; ++i) task(argument, i);
  }
};

void test_descriptions() {
  same(text_of([] { check_description(sound()); }), "");
  const auto refuses = [](const std::function<void(Op&)>& corrupt, const std::string& text) {
    Op op = sound();
    corrupt(op);
    same(text_of([&] { check_description(op); }), text);
  };
  const std::string identifier = ", expected letters, digits and \"_\", and no digit first";
  const std::string declared = ", expected one that the op declares with .type(), of [T]";
  refuses([](Op& op) { op.name = "a-b"; }, "an op: name: got \"a-b\"" + identifier);
  refuses([](Op& op) { op.name = ""; }, "an op: name: got \"\"" + identifier);
  refuses([](Op& op) { op.name = "2x"; }, "an op: name: got \"2x\"" + identifier);
  refuses([](Op& op) { op.onnx_type = "Sca le"; },
          "scale: onnx: got the name \"Sca le\"" + identifier);
  refuses([](Op& op) { op.since_version = 0; }, "scale: onnx: got version 0, expected 1 to 1000");
  refuses([](Op& op) { op.types.push_back({"U", {}}); },
          "scale: U: got a type of no dtypes, expected at least one");
  refuses([](Op& op) { op.types.push_back({"T", {DType::Int64}}); },
          "scale: T: got the name of two type parameters, expected each name once");
  refuses([](Op& op) { op.types[0].dtypes = {DType::Int64, DType::Int64}; },
          "scale: T: got int64 twice, expected each dtype once");
  refuses([](Op& op) { op.types.clear(); },
          "scale: x: got the type parameter \"T\", expected one that the op declares with .type(), "
          "of []");
  refuses([](Op& op) { op.inputs[0].type = "U"; },
          "scale: x: got the type parameter \"U\"" + declared);
  refuses([](Op& op) { op.outputs[0].type = "U"; },
          "scale: y: got the type parameter \"U\"" + declared);
  refuses(
      [](Op& op) { op.inputs.clear(); },
      "scale: inputs: got none, expected at least one: their dtypes decide those of the outputs");
  refuses([](Op& op) { op.outputs.clear(); }, "scale: outputs: got none, expected at least one");
  refuses([](Op& op) { op.inputs.push_back(op.inputs[0]); },
          "scale: x: got the name of two inputs, expected each name once");
  refuses([](Op& op) { op.inputs[0].name = "x y"; },
          "scale: inputs: got the name \"x y\"" + identifier);
  refuses([](Op& op) { op.outputs.push_back(op.outputs[0]); },
          "scale: y: got the name of two outputs, expected each name once");
  refuses([](Op& op) { op.attributes[0].name = "x"; },
          "scale: x: got the name of two inputs or attributes, expected each name once");
  refuses([](Op& op) { op.attributes[0].name = "out"; },
          "scale: out: got an input or attribute of this name, expected another name: torch has it "
          "for the tensor that takes the result");
  refuses([](Op& op) { op.outputs[0].overwritten = {"z"}; },
          "scale: y: got may_overwrite of \"z\", expected names of inputs");
  refuses([](Op& op) { op.attributes[0].choices = {"a"}; },
          "scale: factor: got choices for a float, expected choices for a string only");
  refuses([](Op& op) { op.attributes.push_back({"mode", std::string("c"), ".", {"a", "b"}}); },
          "scale: mode: got \"c\", expected one of \"a\", \"b\"");
  refuses([](Op& op) { op.attributes.push_back(Attribute{"on", true, "."}.above(0)); },
          "scale: on: got a bound for a bool, expected a bound for numbers only");
  refuses([](Op& op) { op.attributes[0].bound = 2; },
          "scale: factor: got 1, expected a number not below 2");
  refuses([](Op& op) { op.shape_rule = nullptr; },
          "scale: shape: got no rule, expected one, given with .shape()");
  refuses([](Op& op) { op.compute = nullptr; },
          "scale: kernel: got none, expected one, given with .kernel()");
  refuses([](Op& op) { op = std::move(op).shape("N C, N -> N"); },
          "scale: the shape rule \"N C, N -> N\" has 2 inputs and 1 outputs, expected 1 and 1");
  refuses([](Op& op) { op = std::move(op).shape("N H 3 -> N H W"); },
          "scale: the shape rule \"N H 3 -> N H W\" has the length \"W\" in an output, expected "
          "one that an input has");
  refuses([](Op& op) { op = std::move(op).shape("N {H + 1} -> N"); },
          "scale: the shape rule \"N {H + 1} -> N\" has the length \"H\" in an input, expected one "
          "that is bound there");
  refuses(
      [](Op& op) {
        op = std::move(op)
                 .type("M", {DType::Int64, DType::Bool})
                 .input(Input{"sizes", "M", "."}.values());
      },
      "scale: sizes: got bool for an input with .values(), expected dtypes of integers or of real "
      "numbers of 16 bits and more");
  refuses(
      [](Op& op) {
        op = std::move(op).shape("N ->");
        op.outputs.push_back({"z", "T", "."});
      },
      "scale: the shape rule \"N ->\" has 1 inputs and 1 outputs, expected 1 and 2");
  refuses(
      [](Op& op) {
        op = std::move(op)
                 .attribute(Attribute{"count", int64_t{1}, "."}.optional())
                 .shape("N -> count");
      },
      "scale: the shape rule \"N -> count\" has the optional attribute \"count\" in an "
      "output, expected one that an input has");
  for (const char* word : {"lambda", "self", "None"}) {
    const std::string taken = str(
        "scale: ", word, ": got a word that Python or TorchScript reserves, expected another name");
    refuses([&](Op& op) { op.inputs[0].name = word; }, taken);
    refuses([&](Op& op) { op.attributes[0].name = word; }, taken);
    refuses(
        [&](Op& op) { op.name = word; },
        str(word, ": name: got a word that Python or TorchScript reserves, expected another name"));
  }
  refuses(
      [](Op& op) {
        op.attributes.push_back({"generator", 1.0, "."});
        op.is_random = true;
      },
      "scale: generator: got an input or attribute of this name in a random op, expected another "
      "name: callers give a torch.Generator by it");
  refuses([](Op& op) { op.summary = "caf\xe9"; },
          "scale: doc: got the text \"caf\\xe9\", expected UTF-8, which Python and ONNX read");
  refuses([](Op& op) { op.attributes[0].doc = "\xf0\x9f\x98"; },
          "scale: factor: got the text \"\\xf0\\x9f\\x98\", expected UTF-8, which Python and ONNX "
          "read");
  same(text_of([] { check_description(sound().doc("caf\xc3\xa9 \xf0\x9f\x98\x80")); }), "");
  refuses(
      [](Op& op) {
        op.attributes.push_back(Attribute{"p", 1.0, "."}.above(1).below(1).required());
      },
      "scale: p: got bounds from 1 to 1, expected bounds between which is a number");
  refuses(
      [](Op& op) {
        op.types.push_back({"I", {DType::Int32, DType::Int64}});
        op.outputs.push_back({"index", "I", "."});
      },
      "scale: index: got the type parameter I of 2 dtypes, which no input has, expected a "
      "parameter "
      "of one dtype, as nothing decides between several");
  refuses(
      [](Op& op) {
        op.onnx_type = "";
        op.inputs[0].is_written = true;
        op = std::move(op).shape("N -> K<=N");
      },
      "scale: shape: got a length for the kernel to decide, in an op that writes into an input, "
      "expected lengths that the rule knows");
  refuses([](Op& op) { op = std::move(op).kernel(MYOPS_TYPED(typed, float)); },
          "scale: x: got float64 among the dtypes of T, expected those that the kernel is written "
          "for, float32");
  Op more = sound().kernel(MYOPS_TYPED(typed, int32_t, double, float));
  same(text_of([&] { check_description(more); }), "");
}

// Floats have 32 bits, given or by default, unless they are exact(); so have their bounds.
void test_floats_are_rounded() {
  const std::vector<double> list{0.1, 0.2};
  const Op op = sound()
                    .attribute(Attribute{"ratio", 0.7, "."}.at_least(0.7).at_most(0.7))
                    .attribute(Attribute{"ratios", list, "."}.above(0.0999))
                    .attribute(Attribute{"fine", 0.7, "."}.exact().at_least(0.7))
                    .attribute(Attribute{"fines", list, "."}.exact());
  same(text_of([&] { check_description(op); }), "");
  Attributes given(op.attributes);
  for (size_t i = 1; i < op.attributes.size(); ++i) {
    given.set(i, i % 2 == 1 ? AttributeValue(0.7) : AttributeValue(list));
  }
  const std::vector<double> rounded{0.1f, 0.2f};
  for (const Attributes& values : {Attributes(op.attributes), given}) {
    expect(values.real("ratio") == 0.7f && values.real("fine") == 0.7, "0.7");
    expect(values.reals("ratios") == rounded && values.reals("fines") == list, "a list");
    same(text_of([&] { check_attributes(op, values); }), "");
  }
  same(dispatcher_schema(op, {}),
       "scale(Tensor x, *, float factor=1.0, float ratio=0.699999988079071, float[] "
       "ratios=[0.10000000149011612, 0.20000000298023224], float fine=0.7, float[] fines=[0.1, "
       "0.2]) "
       "-> Tensor");
  same(text_of([] { check_description(sound().attribute(Attribute{"p", 0.7, "."}.below(0.7))); }),
       "scale: p: got 0.699999988, expected a number below 0.7");
  // Without rounding of the bound it would be above it.
  same(text_of([] { check_description(sound().attribute(Attribute{"p", 0.1, "."}.above(0.1))); }),
       "scale: p: got 0.100000001, expected a number above 0.1");
}

// A rule that computes with lengths: below 0 is a mistake where it knew them all, else unknown.
void test_lengths_below_zero() {
  const auto shorter = [](int64_t by) {
    return sound().shape([by](ShapeContext& context) {
      context.set_output(0, {Dim(context.dims(0)[0].value - by)});
    });
  };
  const auto inferred = [&](int64_t by, const Dim& length) {
    const Op op = shorter(by);
    const Attributes attributes(op.attributes);
    ShapeContext context(op, attributes);
    context.inputs_ = {Dims{length}};
    context.dtypes_ = {DType::Float32};
    context.values_ = {std::nullopt};
    std::string text = text_of([&] { infer(op, attributes, context); });
    return text.empty() ? shape_text(*context.output(0)) : text;
  };
  const auto refused = [](const std::string& length) {
    return "scale: y: got a length of " + length +
           " on axis 0 from the shape rule, expected 0 or more; let the rule refuse the arguments "
           "that lead to it (MYOPS_EXPECT)";
  };
  same(inferred(2, 2), "[0]");
  same(inferred(3, 2),
       "scale: y: got an unknown length on axis 0 from the shape rule, expected a known one where "
       "all lengths of the inputs are; a -1 that it computes is unknown");
  same(inferred(4, 2), refused("-2"));
  same(inferred(int64_t{1} << 40, 2), refused("-1099511627774"));
  for (const int64_t by : {0, 1, 5}) same(inferred(by, Dim()), "[?]");
  const Op op = shorter(9);
  double x[2] = {};
  NoRuntime runtime;
  same(text_of([&] {
         invoke(op, {Tensor(x, DType::Float64, {2})}, Attributes(op.attributes), runtime);
       }),
       refused("-7"));
}

// Mistakes that only a call can show: code of the op that uses names that it has not declared.
void test_code() {
  const auto says = [](const Op& op, const std::string& text) {
    double x[2] = {};
    NoRuntime runtime;
    same(text_of([&] {
           invoke(op, {Tensor(x, DType::Float64, {2})}, Attributes(op.attributes), runtime);
         }),
         text);
  };
  says(sound().kernel([](KernelContext& context) { (void)context.attributes().real("fcator"); }),
       "scale: fcator: got an attribute of this name in the code of the op, expected one of "
       "[factor]");
  says(sound().kernel([](KernelContext& context) { (void)context.attributes().integer("factor"); }),
       "scale: factor: got code that reads an int, expected a float, as the op declares it");
  says(sound().shape([](ShapeContext& context) { (void)context.attributes().text("factor"); }),
       "scale: factor: got code that reads a string, expected a float, as the op declares it");
  says(sound().shape([](ShapeContext& context) { context.set_output(1, {}); }),
       "scale: output 1: got this index from the code of the op, expected one from 0 to 0");
  says(sound().shape([](ShapeContext& context) { context.set_output(0, context.dims(7)); }),
       "scale: input 7: got this index from the code of the op, expected one from 0 to 0");
  says(sound().kernel([](KernelContext& context) { (void)context.input(1); }),
       "scale: input 1: got this index from the code of the op, expected one from 0 to 0");
  says(sound().kernel([](KernelContext& context) { (void)context.output(2); }),
       "scale: output 2: got this index from the code of the op, expected one from 0 to 0");
  const std::string none = ", expected none; MYOPS_EXPECT and myops::fail refuse arguments";
  says(sound().kernel([](KernelContext&) { throw std::runtime_error("no luck"); }),
       "scale: kernel: got an exception, no luck" + none);
  says(sound().shape([](ShapeContext&) { throw std::out_of_range("at"); }),
       "scale: shape: got an exception, at" + none);
  says(sound().kernel([](KernelContext& context) {  // in a task of several
    context.parallel_for(2, 1, [](int64_t, int64_t) { throw 42; });
  }),
       "scale: kernel: got an exception that is not a std::exception" + none);
  const std::string undone =
      "scale: kernel: got dtype float64, expected float32 or int64, which it is written for. "
      "Declare "
      "and dispatch the same dtypes";
  says(sound().kernel([](KernelContext& context) {
    dispatch<float, int64_t>(context.input(0).dtype, [](auto) {});
  }),
       undone);
  says(sound().kernel([](KernelContext& context) {  // in a task of several
    context.parallel_for(2, 1, [&](int64_t, int64_t) {
      dispatch<float, int64_t>(context.input(0).dtype, [](auto) {});
    });
  }),
       undone);
  Op prepared = sound();
  prepared.make_prepared = [](const PrepareContext& context) -> Prepared {
    (void)context.attributes().flag("factor");
    return nullptr;
  };
  same(text_of([&] { prepare(prepared, {Tensor()}, Attributes(prepared.attributes)); }),
       "scale: factor: got code that reads a bool, expected a float, as the op declares it");
}

// This library. It is refused as a whole if one description is wrong.
MYOPS_OP(scale) { return sound(); }
MYOPS_OP(scale_again) { return sound("scale"); }
MYOPS_OP(scale_too) { return sound("scale_too"); }
MYOPS_OP(no_kernel) {
  Op op = sound("no_kernel");
  op.onnx_type = "";
  op.compute = nullptr;
  return op;
}
MYOPS_OP(of_nothing) { return backward_of(sound(), {"z"}).kernel(nothing); }
MYOPS_OP(throws) { throw std::runtime_error("out of luck"); }
MYOPS_OP(throws_a_number) { throw 42; }

const char* kFaults[] = {
    "library myops: scale: name: got the name of another op, expected a name that no other op of "
    "this library has",
    "library myops: scale_too: onnx: got version 1 of the type Scale, which scale has, expected a "
    "type or a version of its own",
    "library myops: no_kernel: kernel: got none, expected one, given with .kernel()",
    "library myops: scale_backward: backward_of: got 1 names, expected names of inputs of scale, "
    "each once",
    "library myops: throws: description: got an exception, out of luck, expected none",
    "library myops: throws_a_number: description: got an exception that is not a std::exception, "
    "expected none"};

void test_faults_of_a_library() {
  std::string all;
  for (const char* fault : kFaults) all += (all.empty() ? "" : "\n") + std::string(fault);
  same(text_of(refuse_faults), all);
  expect(find_op("scale") != nullptr && find_op("no_kernel") == nullptr, "only what is sound");
  for (int round = 0; round < 2; ++round) {
    const fake_ort::Session session(fake_ort::Node{"Scale", {}, {}});
    same(session.refusal(), all);
  }
  expect(fake_ort::live_statuses() == 0, "every status is released");
}

}  // namespace

int main() {
  test_descriptions();
  test_floats_are_rounded();
  test_lengths_below_zero();
  test_code();
  test_faults_of_a_library();
  return finish("tests of descriptions");
}
