// Numbers that decide a shape, overwritten by another thread during a call: the rule, the kernel
// and the shape cache all see the numbers at the beginning of the call.
#include <functional>
#include <iterator>
#include <vector>

#include "../../csrc/core/shape_cache.h"
#include "checking.h"

namespace {

using namespace myops;
using Numbers = std::vector<double>;

// The contents of a list of numbers.
constexpr DType kNumbers[] = {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64,
                              DType::UInt8,   DType::Int32,    DType::Int64,   DType::Int8,
                              DType::Int16,   DType::UInt16,   DType::UInt32,  DType::UInt64};

// When the numbers are overwritten.
enum class Moment { Never, Rule, Allocate, Kernel };

Moment moment = Moment::Never;
std::function<void()> write_now;
std::vector<Numbers> of_rule, of_kernel;  // the numbers that each read
bool rule_ran = false;

void come_by(Moment now) {
  if (moment == now) write_now();
}

// [the sum of both lists]
void shape(ShapeContext& context) {
  rule_ran = true;
  of_rule = {context.values(1).value_or(Numbers()), context.values(2).value_or(Numbers())};
  come_by(Moment::Rule);
  double length = 0;
  for (const Numbers& list : of_rule) {
    for (const double number : list) length += number;
  }
  context.set_output(0, {Dim(static_cast<int64_t>(length))});
}

void compute(KernelContext& context) {
  of_kernel.clear();
  come_by(Moment::Kernel);
  for (const size_t input : {1, 2}) {
    const Tensor& list = context.input(input);
    of_kernel.push_back(list.present ? read_values(list) : Numbers());
    if (list.present) expect(list.is(Layout::Contiguous), "without gaps in the kernel");
  }
}

Op probe() {
  const std::vector<DType> all(std::begin(kNumbers), std::end(kNumbers));
  return Op("probe")
      .type("T", {DType::Float32})
      .type("A", all)
      .type("B", all)
      .input({"x", "T", "."})
      .input(Input{"first", "A", "."}.values())
      .input(Input{"second", "B", "."}.values().optional())
      .output({"y", "T", "."})
      .shape(shape)
      .kernel(compute);
}

class TestRuntime final : public Runtime {
 public:
  Tensor allocate(size_t, DType dtype, const Shape& shape, Layout layout) override {
    output = shape;
    come_by(Moment::Allocate);
    return Tensor(nullptr, dtype, shape, layout);
  }
  void run(int64_t, Task, void*) override {}
  Shape output;
};

// A list in memory of its own, optionally with gaps and in reverse order.
class List {
 public:
  List(DType dtype, const Numbers& numbers, int64_t step) : dtype_(dtype) {
    const auto count = static_cast<int64_t>(numbers.size());
    memory_.resize(static_cast<size_t>((count + 1) * std::abs(step)) * dtype_size(dtype), 0x55);
    char* begin = memory_.data();
    if (step < 0 && count > 0)
      begin += static_cast<size_t>((count - 1) * -step) * dtype_size(dtype);
    tensor = Tensor(begin, dtype, {count}, Shape{step});
    write(numbers);
  }

  void write(const Numbers& numbers) {
    dispatch<Half, BFloat16, float, double, uint8_t, int32_t, int64_t, int8_t, int16_t, uint16_t,
             uint32_t, uint64_t>(dtype_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (size_t i = 0; i < numbers.size(); ++i) {
        const auto number = static_cast<float>(numbers[i]);
        tensor.as<T>()[static_cast<int64_t>(i) * tensor.strides[0]] = static_cast<T>(number);
      }
    });
  }

  Tensor tensor;

 private:
  DType dtype_;
  std::vector<char> memory_;
};

int64_t sum(const Numbers& first, const Numbers& second) {
  double total = 0;
  for (const Numbers* list : {&first, &second}) {
    for (const double number : *list) total += number;
  }
  return static_cast<int64_t>(total);
}

Numbers counting(size_t count, double from) {
  Numbers numbers;
  for (size_t i = 0; i < count; ++i) numbers.push_back(from + static_cast<double>(i % 7));
  return numbers;
}

void test_numbers_are_read_once() {
  const Op op = probe();
  const Attributes attributes(op.attributes);
  float x = 0;
  unsigned seed = 20;
  const auto draw = [&](unsigned below) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 16) % below;
  };
  const size_t counts[] = {0, 1, 3, 31, 32, 33, 64, 65, 300, 4096};
  const int64_t steps[] = {1, 2, 5, -1, -3};
  for (int round = 0; round < 3000; ++round) {
    const Numbers before[2] = {counting(counts[draw(10)], 1), counting(counts[draw(10)], 2)};
    List first(kNumbers[draw(std::size(kNumbers))], before[0], steps[draw(5)]);
    List second(kNumbers[draw(std::size(kNumbers))], before[1], steps[draw(5)]);
    const bool has_second = draw(4) > 0;
    const Numbers expected = has_second ? before[1] : Numbers();
    const Tensors inputs{Tensor(&x, DType::Float32, {}), first.tensor,
                         has_second ? second.tensor : Tensor()};
    write_now = [&] {
      first.write(counting(before[0].size(), 100));
      second.write(counting(before[1].size(), 90));
    };
    ShapeCache last;
    const std::string which = str("round ", round, ": ");
    // Cached, then overwritten while the cached shapes are used, then called again.
    for (const Moment now : {Moment::Never, static_cast<Moment>(draw(4)), Moment::Never}) {
      first.write(before[0]);
      second.write(before[1]);
      moment = now;
      rule_ran = false;
      TestRuntime runtime;
      invoke(op, inputs, attributes, runtime, nullptr, &last);
      expect(runtime.output == Shape{sum(before[0], expected)}, which + "the shape");
      expect(of_kernel[0] == before[0] && of_kernel[1] == expected, which + "the kernel's numbers");
      if (rule_ran) {
        expect(of_rule[0] == before[0] && of_rule[1] == expected, which + "the rule's numbers");
      }
    }
    // The overwritten numbers are a different call.
    moment = Moment::Never;
    first.write(counting(before[0].size(), 3));
    TestRuntime runtime;
    invoke(op, inputs, attributes, runtime, nullptr, &last);
    expect(runtime.output == Shape{sum(counting(before[0].size(), 3), expected)},
           which + "numbers of the next call");
  }
}

// The rule runs with numbers that are then overwritten: the cached shapes belong to the earlier
// ones.
void test_cached_shapes_belong_to_the_numbers_of_the_rule() {
  const Op op = probe();
  const Attributes attributes(op.attributes);
  float x = 0;
  List list(DType::Int64, {2, 3}, 1);
  const Tensors inputs{Tensor(&x, DType::Float32, {}), list.tensor, Tensor()};
  ShapeCache last;
  TestRuntime runtime;
  const auto call = [&](Moment now) {
    moment = now;
    rule_ran = false;
    invoke(op, inputs, attributes, runtime, nullptr, &last);
    moment = Moment::Never;
    return runtime.output[0];
  };
  write_now = [&] { list.write({50, 60}); };
  expect(call(Moment::Rule) == 5 && rule_ran, "the numbers from before");
  expect(call(Moment::Never) == 110 && rule_ran, "the new numbers are another call");
  list.write({2, 3});
  expect(call(Moment::Rule) == 5, "the old ones again");
  list.write({2, 3});
  expect(call(Moment::Never) == 5 && !rule_ran,
         "shapes are cached under the numbers that they belong to");
}

void test_wrong_lists_are_refused() {
  const Op op = probe();
  const Attributes attributes(op.attributes);
  float x = 0;
  std::vector<int64_t> numbers(5000, 1);
  const auto refusal = [&](const Tensor& first, const Tensor& second) -> std::string {
    TestRuntime runtime;
    try {
      invoke(op, {Tensor(&x, DType::Float32, {}), first, second}, attributes, runtime);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const auto list = [&](Shape shape) { return Tensor(numbers.data(), DType::Int64, shape); };
  const std::string most = ", expected a list of at most 4096";
  expect(refusal(list({4097}), Tensor()) == "probe: first: got 4097 numbers" + most, "too long");
  expect(refusal(list({2}), list({5000})) == "probe: second: got 5000 numbers" + most, "the other");
  expect(refusal(list({2, 2}), Tensor()) == "probe: first: got rank 2, expected a list (rank 1)",
         "no list");
  // 2^62 numbers are refused, not read.
  expect(refusal(list({int64_t{1} << 62}), Tensor()).find(most) != std::string::npos, "absurd");
  TestRuntime runtime;
  invoke(op, {Tensor(&x, DType::Float32, {}), list({}), list({0})}, attributes, runtime);
  expect(runtime.output == Shape{1} && of_kernel[0] == Numbers{1}, "a scalar is a list of one");
}

}  // namespace

int main() {
  test_numbers_are_read_once();
  test_cached_shapes_belong_to_the_numbers_of_the_rule();
  test_wrong_lists_are_refused();
  return finish("tests of the inputs of a call");
}
