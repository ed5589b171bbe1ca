// invoke() with a ShapeCache: the shape rule runs only if something that it depends on has changed.
// The next call finds what a kernel stored only if it is an equal call. With several threads at
// once the shapes are still those of the rule.
#include <thread>

#include "../../csrc/core/shape_cache.h"
#include "checking.h"

namespace {

using namespace myops;

std::atomic<int> asked{0};
std::atomic<bool> mismatch{false};  // a kernel found what a different call had stored
thread_local bool found = false;    // whether the last call found a cached object

// Stores its arguments, and compares them with those that it finds stored.
void store_question(KernelContext& context) {
  using Question = std::pair<Shape, int64_t>;
  const Question question{context.output(0).shape, context.attributes().integer("more")};
  const auto stored = context.call_cache<Question>();
  found = stored != nullptr;
  if (context.work<Question>() != stored) mismatch = true;  // the earlier name
  if (found && *stored != question) mismatch = true;
  if (!found) context.set_call_cache(std::make_shared<const Question>(question));
}

// x of any shape, each axis repeated so many times, and `more` at its end.
void shape(ShapeContext& context) {
  ++asked;
  Dims dims = context.dims(0);
  if (context.has(1)) {
    const std::vector<double>& times = *context.values(1);
    if (times.size() != dims.size()) fail(context.op_name(), "times", "a number", "one an axis");
    for (size_t i = 0; i < dims.size(); ++i) {
      dims[i] = Dim(dims[i].value * static_cast<int64_t>(times[i]));
    }
  }
  if (!dims.empty()) dims.back() = Dim(dims.back().value + context.attributes().integer("more"));
  context.set_output(0, dims);
}

Op probe() {
  return Op("probe")
      .type("T", {DType::Float32, DType::Float64})
      .type("N", {DType::Int64, DType::Float64})
      .input({"x", "T", "."})
      .input(Input{"times", "N", "."}.values().optional())
      .output({"y", "T", "."})
      .attribute({"more", int64_t{0}, "."})
      .attribute({"real", 0.0, "."})
      .attribute({"reals", std::vector<double>{}, "."})
      .shape(shape)
      .kernel(store_question);
}

class Recording final : public Runtime {
 public:
  Tensor allocate(size_t, DType dtype, const Shape& shape, Layout layout) override {
    return output = Tensor(nullptr, dtype, shape, layout);
  }
  void run(int64_t, Task, void*) override {}
  Tensor output;
};

class Caller {
 public:
  // How often the rule ran.
  int call(const Tensor& x, const Tensor& times = {}) {
    const int before = asked;
    invoke(op, {x, times}, attributes, runtime, nullptr, &last);
    return asked - before;
  }

  const Op op = probe();
  Attributes attributes{op.attributes};
  Recording runtime;
  ShapeCache last;
};

void test_every_part_of_a_call_is_compared() {
  float memory[1] = {};
  double reals[4] = {2, 3, 9, 9};
  int64_t integers[2] = {2, 3};
  const Tensor x(memory, DType::Float32, {4, 5}), wide(memory, DType::Float64, {4, 5});
  const Tensor longer(memory, DType::Float32, {4, 6}), deeper(memory, DType::Float32, {1, 4, 5});
  Tensor times(integers, DType::Int64, {2});

  Caller caller;
  expect(caller.call(x) == 1, "asked at the first call");
  expect(!found, "nothing was stored before");
  expect(caller.call(x) == 0, "not asked again");
  expect(found, "what the kernel stored");
  expect(caller.runtime.output.shape == Shape{4, 5}, "the first shape");
  expect(caller.call(wide) == 1 && !found, "asked for another dtype");
  expect(caller.runtime.output.dtype == DType::Float64, "the other dtype");
  expect(caller.call(wide) == 0 && caller.runtime.output.dtype == DType::Float64, "cached");
  expect(caller.call(longer) == 1, "asked for another length");
  expect(caller.call(deeper) == 1, "asked for another rank");
  expect(caller.call(x, times) == 1, "asked when an input was left out before");
  expect(caller.call(x, times) == 0, "not asked for the same numbers");
  expect(caller.runtime.output.shape == Shape{8, 15}, "the shape that the numbers make");
  integers[1] = 4;
  expect(caller.call(x, times) == 1, "asked for other numbers in the same memory");
  expect(caller.runtime.output.shape == Shape{8, 20}, "the shape that the other numbers make");
  expect(caller.call(x) == 1, "asked when an input is left out now");
  caller.attributes.set(0, int64_t{7});
  expect(caller.call(x) == 1, "asked for another attribute");
  expect(caller.runtime.output.shape == Shape{4, 12}, "the shape that the attribute makes");
  expect(!found && caller.call(x) == 0 && found, "stored for the other attribute");

  // Every other number of `reals`: the same numbers are the same call, whatever lies between them.
  const Tensor apart(reals, DType::Float64, {2}, Shape{2});
  expect(caller.call(x, apart) == 1 && caller.call(x, apart) == 0, "a list with gaps: once");
  expect(caller.runtime.output.shape == Shape{8, 52}, "the shape that the list with gaps makes");
  double close[2] = {2, 3};
  times = Tensor(close, DType::Float64, {2});
  expect(caller.call(x, times) == 1 && caller.call(x, times) == 0, "a list without gaps: once");
  expect(caller.call(x, apart) == 1, "a list with gaps is not taken for what lies there without");
  expect(caller.runtime.output.shape == Shape{8, 52}, "the shape of the list with gaps again");
  close[1] = 9;
  expect(caller.call(x, times) == 0 && found, "equal numbers without gaps");
  expect(!mismatch, "what a kernel finds is its own");
}

// A kernel may copy a zero into its result, so that its sign matters.
void test_signs_of_zeros() {
  float memory[1] = {};
  Caller caller;
  const Tensor x(memory, DType::Float32, {4, 5});
  for (const double zero : {0.0, -0.0}) {
    caller.attributes.set(1, zero);
    caller.attributes.set(2, std::vector<double>{1, zero});
    expect(caller.call(x) == 1 && caller.call(x) == 0, "another zero is another call");
  }
  caller.attributes.set(1, 0.0);
  expect(caller.call(x) == 1, "the number alone");
  caller.attributes.set(2, std::vector<double>{1, 0.0});
  expect(caller.call(x) == 1 && caller.call(x) == 0, "the list alone");
}

void test_refusals_are_not_cached() {
  float memory[1] = {};
  int64_t integers[1] = {2};
  Caller caller;
  const Tensor x(memory, DType::Float32, {4, 5}), times(integers, DType::Int64, {1});
  expect(caller.call(x) == 1, "a good call");
  for (int i = 0; i < 2; ++i) {
    bool refused = false;
    try {
      caller.call(x, times);
    } catch (const Error&) {
      refused = true;
    }
    expect(refused, "refused each time");
  }
  expect(caller.call(x) == 0, "the good call is still known");
}

void test_threads() {
  float memory[1] = {};
  Caller shared;
  std::vector<std::thread> threads;
  for (int64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int64_t i = 0; i < 5000; ++i) {
        const int64_t length = 1 + (thread + i / 3) % 3;
        Recording runtime;
        invoke(shared.op, {Tensor(memory, DType::Float32, Shape(length, 5)), Tensor()},
               shared.attributes, runtime, nullptr, &shared.last);
        if (runtime.output.shape != Shape(length, 5)) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect(!mismatch, "what a kernel finds is its own, with threads");
}

}  // namespace

int main() {
  test_every_part_of_a_call_is_compared();
  test_signs_of_zeros();
  test_refusals_are_not_cached();
  test_threads();
  return finish("last answer tests");
}
