// Lengths that a kernel decides, in correct and in wrong calls.
#include <cstring>
#include <limits>
#include <thread>

#include "decided_outputs.h"
#include "myops/view.h"

namespace {

using namespace decided_outputs;

void test_a_kernel_decides_a_length() {
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
  same(call([](KernelContext& context) {
         context.set_length("K", 1);
         context.set_length("K", 2);
       }),
       "pairs: values: got length 2 on axis 0 from the kernel, expected 1, the length that the "
       "kernel "
       "has set for \"K\"");
  same(call([](KernelContext& context) {
         context.set_length("K", 1);
         context.set_length("K", 1);  // nothing new
       }),
       "");
  same(call([](KernelContext& context) { context.set_length("L", 1); }),
       "pairs: kernel: got set_length of \"L\", expected the name of a length in "
       "Dim::at_most(bound, name)");
  same(call([](KernelContext& context) {
         context.allocate_output(0, {2, 2});
         context.allocate_output(1, {1});
       }),
       "pairs: places: got length 1 on axis 0 from the kernel, expected 2, the length that the "
       "kernel "
       "has set for \"K\"");
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

// None of them ends the process, wherever the kernel writes.
void test_writes_before_the_length() {
  const std::string early =
      "pairs: values: got a kernel that writes an output before it has set the length, expected a "
      "call of "
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

}  // namespace

int main() {
  test_a_kernel_decides_a_length();
  test_wrong_lengths_are_refused();
  test_writes_before_the_length();
  test_strings_before_the_length();
  test_lengths_from_other_threads();
  test_a_rule_that_knows_every_length();
  test_lengths_in_descriptions();
  test_the_gradient_of_decided_lengths();
  return finish("tests of lengths that a kernel decides");
}
