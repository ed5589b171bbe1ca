// Lists of tensors, optional outputs, written inputs, and defaults that are hard to write in a
// schema.
#include <limits>
#include <random>
#include <set>

#include "../../csrc/core/dispatcher_schema.h"
#include "../../csrc/core/out_argument.h"
#include "decided_outputs.h"

namespace {

using namespace decided_outputs;

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

std::string fault(const Op& op) {
  try {
    check_description(op);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

void test_wrong_descriptions_are_refused() {
  same(fault(described()
                 .input({"others_1", "T", "[N]."})
                 .input(Input{"others", "T", "[N] each."}.variadic())),
       "pairs: others_1: got the name of a tensor in the variadic input others, expected another "
       "name");
  same(fault(described()
                 .input({"others_x", "T", "[N]."})
                 .input(Input{"others", "T", "[N] each."}.variadic())),
       "");
  Op op = described().attribute({"flag", false, "Whether anything is computed."});
  for (Output& output : op.outputs) output.condition = "flag";
  same(fault(op),
       "pairs: values: got outputs that are all optional, expected at least one that every call "
       "computes");
}

// torch takes no default before an argument without one.
void test_an_optional_input_before_a_list() {
  const Op op = Op("blend")
                    .type("T", {DType::Float32})
                    .input(Input{"weights", "T", "[C]."}.optional())
                    .input(Input{"tensors", "T", "[N] each."}.variadic())
                    .output({"sum", "T", "[N]."});
  same(dispatcher_schema(op, {}), "blend(Tensor? weights, Tensor[] tensors) -> Tensor");
  const Op last = Op("blend")
                      .type("T", {DType::Float32})
                      .input({"x", "T", "[N]."})
                      .input(Input{"weights", "T", "[C]."}.optional())
                      .output({"sum", "T", "[N]."});
  same(dispatcher_schema(last, {}), "blend(Tensor x, Tensor? weights=None) -> Tensor");
}

// torch's parser of schemas has no syntax for them, or reads another text.
void test_defaults_without_a_schema_syntax() {
  const double infinite = std::numeric_limits<double>::infinity();
  const Op op = Op("defaults")
                    .type("T", {DType::Float32})
                    .input({"x", "T", "[N]."})
                    .output({"y", "T", "[N]."})
                    .attribute({"text", std::string("\"\\n\n\303\251"), "."})
                    .attribute({"limit", infinite, "."})
                    .attribute(Attribute{"least", 5e-324, "."}.exact())
                    .attribute({"limits", std::vector<double>{1, -infinite}, "."})
                    .attribute({"zero", 0.0, "."});
  same(dispatcher_schema(op, {}),
       "defaults(Tensor x, *, str text=\"\\042\\134n\\012\303\251\", float? limit=None, float? "
       "least=None, float[]? limits=None, float zero=0.0) -> Tensor");
}

// Against the addresses of all elements, for views of one buffer with any strides.
void test_shared_memory() {
  std::mt19937 random(0);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  std::vector<float> buffer(400);
  const auto made = [&] {
    const Shape shape{pick(1, 3), pick(1, 3)};
    const Shape strides{pick(-6, 6), pick(-6, 6)};
    return Tensor(buffer.data() + 200 + pick(-8, 8), DType::Float32, shape, strides);
  };
  const auto places = [](const Tensor& x) {
    std::set<const float*> found;
    for (int64_t i = 0; i < x.shape[0]; ++i) {
      for (int64_t k = 0; k < x.shape[1]; ++k) {
        found.insert(x.as<float>() + i * x.strides[0] + k * x.strides[1]);
      }
    }
    return found;
  };
  int apart = 0;
  for (int round = 0; round < 20000; ++round) {
    const Tensor one = made(), other = made();
    const auto mine = places(one);
    bool shared = false;
    for (const float* place : places(other)) shared = shared || mine.count(place) != 0;
    const bool said = share_memory(one, other);
    expect(said || !shared, "memory that is shared is seen");
    apart += !said;
  }
  expect(apart > 5000, "most views that are apart are seen to be");
  // The columns and the halves of a matrix.
  const auto columns = [&](int64_t first, int64_t count) {
    return Tensor(buffer.data() + first, DType::Float32, {5, count}, Shape{4, 1});
  };
  expect(!share_memory(columns(0, 1), columns(1, 1)), "columns");
  expect(!share_memory(columns(0, 2), columns(2, 2)), "halves");
  expect(share_memory(columns(0, 3), columns(2, 2)), "a common column");
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
  test_lists();
  test_optional_outputs();
  test_wrong_descriptions_are_refused();
  test_an_optional_input_before_a_list();
  test_defaults_without_a_schema_syntax();
  test_shared_memory();
  test_writes();
  return finish("tests of unusual inputs and outputs");
}
