// Lengths that a kernel decides, lists of tensors, optional outputs and written inputs, in calls
// that are right and in those that are not.
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "../../csrc/core/dispatcher_schema.h"
#include "../../csrc/core/out_argument.h"
#include "checking.h"
#include "myops/op.h"
#include "myops/view.h"

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
  same(
      call([](KernelContext& context) {
        context.set_length("K", 1);
        context.set_length("K", 2);
      }),
      "pairs: values: got length 2 on axis 0 from the kernel, expected 1, what the kernel said for "
      "\"K\" before");
  same(call([](KernelContext& context) {
         context.set_length("K", 1);
         context.set_length("K", 1);  // nothing new
       }),
       "");
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
       "set_length before it writes, also where the length is 0");
  same(call([](KernelContext& context) {
         context.set_length("K", 1);
         context.allocate_output(0, {1, 2});
       }),
       "pairs: values: got a call of allocate_output, expected one call of allocate_output or "
       "set_length for it");
}

void fill(const Tensor& y, int64_t count) {
  if (count == 0) return;  // an empty output may have no memory
  std::memset(y.data, 0, static_cast<size_t>(count) * dtype_size(y.dtype));
}

// None of them ends the process, whatever the kernel writes into.
void test_writes_before_the_length() {
  const std::string early =
      "pairs: values: got a kernel that writes before it has said the length, expected a call of "
      "allocate_output or set_length first: pointers and views that were made before it do not "
      "lead to the output";
  const std::string never =
      "pairs: values: got no length from the kernel, expected a call of allocate_output or "
      "set_length before it writes, also where the length is 0";
  for (int round = 0; round < 3; ++round) {
    same(call([](KernelContext& context) { fill(context.output(0), 6); }), never);
    same(call([](KernelContext& context) { context.output(0).as<float>()[0] = 1; }), never);
    same(call([](KernelContext& context) { fill(context.output(1), 3); }), never);
    same(call([](KernelContext& context) {
           const View<float, 2> y(context.output(0));
           context.parallel_for(3, 1, [&](int64_t begin, int64_t) { y(begin, 1) = 1; });
         }),
         never);
    same(call([](KernelContext& context) {
           fill(context.output(0), 6);
           context.set_length("K", 3);
         }),
         early);
    same(call([](KernelContext& context) {
           float* const y = context.output(0).as<float>();  // too early
           context.set_length("K", 3);
           y[0] = 1;
         }),
         early);
    same(call([](KernelContext& context) {
           const Tensor& y = context.output(0);  // what it refers to changes: no mistake
           context.set_length("K", 3);
           fill(y, 6);
         }),
         "");
  }
  Op op = described().shape([](ShapeContext& context) {  // without a bound, and larger than it was
    context.set_output(0, {Dim::any("K"), 2});
    context.set_output(1, {Dim::any("K")});
  });
  body = [](KernelContext& context) { fill(context.output(0), 1 << 20); };
  TestRuntime runtime;
  same(call(op, runtime), never);
  body = [](KernelContext& context) {  // far beyond the first GiB; a page at each place is taken
    context.output(0).as<float>()[0] = context.output(0).as<float>()[int64_t{1} << 30] = 1;
    context.output(1).as<int64_t>()[(int64_t{1} << 30) - 1] = 1;
  };
  same(call(op, runtime), never);
  body = [](KernelContext& context) {
    context.set_length("K", 0);
    fill(context.output(0), 0);
  };
  same(call(op, runtime), "");
}

void test_strings_before_the_length() {
  Op op = Op("words")
              .type("S", {DType::String})
              .input({"x", "S", "[N]."})
              .output({"y", "S", "[K]."})
              .shape("N -> K<=N")
              .kernel([](KernelContext& context) { body(context); });
  std::vector<std::string> words(3, std::string(100, 'w'));
  const auto called = [&] {
    TestRuntime runtime;
    try {
      invoke(op, {Tensor(words.data(), DType::String, {3})}, Attributes(op.attributes), runtime);
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  body = [](KernelContext& context) {
    for (int i = 0; i < 3; ++i) {
      context.output(0).as<std::string>()[i] = context.input(0).as<std::string>()[i];
    }
  };
  expect(called().find("words: y: got no length from the kernel") == 0, "refused");
}

void test_lengths_from_other_threads() {
  const std::string refused =
      "pairs: \"K\": got a call of set_length in parallel_for or from another thread, expected one "
      "by the thread that runs the kernel, outside of parallel_for";
  for (const int64_t pieces : {1, 4}) {
    same(call([&](KernelContext& context) {
           context.parallel_for(pieces, 1, [&](int64_t, int64_t) { context.set_length("K", 1); });
         }),
         refused);
  }
  same(call([](KernelContext& context) {
         context.parallel_for(4, 1, [&](int64_t, int64_t) { context.allocate_output(1, {1}); });
       }),
       "pairs: places: got a call of allocate_output in parallel_for or from another thread, "
       "expected one by the thread that runs the kernel, outside of parallel_for");
  std::string said;
  same(call([&](KernelContext& context) {
         std::thread([&] {
           try {
             context.set_length("K", 1);
           } catch (const Error& error) {
             said = error.what();
           }
         }).join();
         context.parallel_for(4, 1, [](int64_t, int64_t) {});
         context.set_length("K", 1);
       }),
       "");
  same(said, refused);
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

std::string fault(const Op& op) {
  try {
    check_description(op);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

void test_descriptions_that_cannot_be() {
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

void test_lengths_in_descriptions() {
  expect(!Dim().decided() && !Dim(3).decided() && !Dim("n").decided(), "lengths of inputs");
  expect(Dim::any().decided() && Dim::any().most() == -1 && !Dim::any().known(), "no bound");
  for (const int64_t most : {int64_t{0}, int64_t{1}, int64_t{1} << 40}) {
    const Dim dim = Dim::at_most(most, "K");
    expect(dim.decided() && dim.most() == most && dim.symbol == "K" && !dim.known(), "a bound");
    expect(Dim::at_most(dim).most() == most, "the bound of a bound");
  }
  expect(Dim::at_most(std::numeric_limits<int64_t>::max()).decided(), "no overflow");
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

// torch's parser of schemas has no word for them, or reads another text.
void test_defaults_that_are_hard_to_write() {
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

// The gradients of outputs that share a length have one length, within its bound.
void test_the_gradient_of_decided_lengths() {
  Op forward = described();
  forward.outputs[1].type = "T";
  const Op op = backward_of(forward, {"x"}).kernel([](KernelContext&) {});
  std::vector<float> memory(16);
  const auto called = [&](int64_t rows, int64_t places) {
    const Tensors inputs{Tensor(memory.data(), DType::Float32, {rows, 2}),
                         Tensor(memory.data(), DType::Float32, {places}),
                         Tensor(memory.data(), DType::Float32, {3})};
    TestRuntime runtime;
    try {
      invoke(op, inputs, Attributes(op.attributes), runtime);
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  same(called(2, 2), "");
  expect(called(2, 1).find("pairs_backward: grad_places: got shape [1]") == 0, "two lengths");
  expect(called(4, 4).find("pairs_backward: grad_values: got shape [4, 2]") == 0, "the bound");
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
  test_a_length_is_said();
  test_wrong_lengths_are_refused();
  test_writes_before_the_length();
  test_strings_before_the_length();
  test_lengths_from_other_threads();
  test_a_rule_that_knows_every_length();
  test_lists();
  test_optional_outputs();
  test_descriptions_that_cannot_be();
  test_lengths_in_descriptions();
  test_an_optional_input_before_a_list();
  test_defaults_that_are_hard_to_write();
  test_the_gradient_of_decided_lengths();
  test_shared_memory();
  test_writes();
  return finish("tests of unusual outputs and inputs");
}
