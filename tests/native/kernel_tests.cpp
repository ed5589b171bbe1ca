// The core and the kernels without a runtime: guard zones around outputs, misaligned inputs,
// several orders of the work, refusals, rounding of the 16-bit floats.
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "checking.h"
#include "guarded_runtime.h"
#include "myops/op.h"
#include "resize_reference.h"

namespace {

using namespace myops;

void refuses(const std::string& what, const std::string& text, const std::function<void()>& body) {
  try {
    body();
    expect(false, what + ": no error");
  } catch (const Error& error) {
    expect(error.what() == text, what + ": " + error.what());
  }
}

void test_every_order_gives_the_same_bits_and_no_overrun() {
  const Op& op = *find_op("my_add");
  for (const int64_t count : {0, 1, 7, 129, 32767, 32768, 100003}) {
    std::vector<float> a = numbers(static_cast<size_t>(count) + 1, 1);
    std::vector<float> b = numbers(static_cast<size_t>(count) + 1, 2);
    std::vector<uint8_t> first;
    for (const Order order : {Order::Forward, Order::Backward, Order::Threads}) {
      TestRuntime runtime(order);
      // One element in: the data is not aligned to more than its own size.
      invoke(op,
             {Tensor(a.data() + 1, DType::Float32, {count}),
              Tensor(b.data() + 1, DType::Float32, {count})},
             Attributes(op.attributes), runtime);
      expect(runtime.guards_intact(), str("my_add wrote outside, count ", count));
      const std::vector<uint8_t> result = runtime.result();
      const float* c = reinterpret_cast<const float*>(result.data());
      for (int64_t i = 0; i < count; ++i) {
        const size_t at = static_cast<size_t>(i);
        if (c[i] != 2 * a[at + 1] + b[at + 1]) {
          expect(false, str("my_add value at ", i, " of ", count));
          break;
        }
      }
      if (order == Order::Forward) first = result;
      expect(result == first, str("my_add depends on the order of pieces, count ", count));
    }
  }
}

void test_resize_orders_and_guards() {
  const Op& op = *find_op("resize");
  const Shape shape = {1, 3, 17, 23};
  std::vector<float> x = numbers(static_cast<size_t>(element_count(shape)), 3);
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (double scale : {0.4, 1.0, 2.7}) {
      for (const Layout layout : {Layout::Contiguous, Layout::ChannelsLast}) {
        std::vector<uint8_t> first;
        std::vector<double> scales = {scale, scale};
        for (const Order order : {Order::Forward, Order::Backward, Order::Threads}) {
          TestRuntime runtime(order);
          invoke(
              op,
              {Tensor(x.data(), DType::Float32, shape, layout), Tensor(),
               Tensor(scales.data(), DType::Float64, {2}), Tensor()},
              attributes(op, {{"mode", std::string(mode)}, {"axes", std::vector<int64_t>{2, 3}}}),
              runtime);
          expect(runtime.guards_intact(), str("resize ", mode, " wrote outside"));
          if (order == Order::Forward) first = runtime.result();
          expect(runtime.result() == first, str("resize ", mode, " depends on the order"));
        }
      }
    }
  }
}

// Rows of each length resized to many others: every way to read a block, and every table for it.
template <class T>
void test_resize_values(DType dtype, double limit) {
  const Op& op = *find_op("resize");
  for (const char* mode : {"nearest", "linear", "cubic", "area"}) {
    for (int64_t input = 1; input <= 130; input += input < 40 ? 1 : 13) {
      const auto drawn = numbers(static_cast<size_t>(3 * input), static_cast<unsigned>(input));
      std::vector<T> x(drawn.begin(), drawn.end());
      for (int64_t output = 1; output <= 300; output += 1 + output / 7) {
        for (const int64_t channels : {1, 3}) {
          TestRuntime runtime;
          std::vector<int64_t> sizes = {output};
          invoke(op,
                 {Tensor(x.data(), dtype, {input, channels}), Tensor(), Tensor(),
                  Tensor(sizes.data(), DType::Int64, {1})},
                 attributes(op, {{"mode", std::string(mode)}, {"axes", std::vector<int64_t>{0}}}),
                 runtime);
          const std::vector<uint8_t> bytes = runtime.result();
          for (int64_t i = 0; i < output * channels; ++i) {
            double expected = 0;
            for (const auto& [index, weight] : taps_of<T>(mode, input, output, i / channels)) {
              expected += weight * x[static_cast<size_t>(index * channels + i % channels)];
            }
            T got;  // not aligned
            std::memcpy(&got, bytes.data() + static_cast<size_t>(i) * sizeof(T), sizeof(T));
            if (std::abs(got - expected) < limit) continue;
            expect(false,
                   str("resize ", mode, " ", dtype_name(dtype), " of ", input, " to ", output, ", ",
                       channels, " channels, at ", i, ": got ", got, ", expected ", expected));
            break;
          }
        }
      }
    }
  }
}

void test_refusals() {
  const Op& add = *find_op("my_add");
  std::vector<float> a(4);
  refuses(
      "shapes", "my_add: b: got length 3 on axis 0, expected 1 or 4, the length of a there", [&] {
        TestRuntime runtime;
        invoke(add, {Tensor(a.data(), DType::Float32, {4}), Tensor(a.data(), DType::Float32, {3})},
               Attributes(add.attributes), runtime);
      });
  refuses("dtypes", "my_add: b: got dtype float64, expected float32, the dtype of a", [&] {
    TestRuntime runtime;
    invoke(add, {Tensor(a.data(), DType::Float32, {2}), Tensor(a.data(), DType::Float64, {2})},
           Attributes(add.attributes), runtime);
  });
  refuses("missing", "my_add: b: got nothing, expected a tensor", [&] {
    TestRuntime runtime;
    invoke(add, {Tensor(a.data(), DType::Float32, {4}), Tensor()}, Attributes(add.attributes),
           runtime);
  });
}

// All 65,536 halves survive a round trip, and rounding goes to the nearest, ties to even.
void test_16_bit_floats() {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    Half half;
    half.bits = static_cast<uint16_t>(bits);
    const float value = static_cast<float>(half);
    if (std::isnan(value)) {
      expect(std::isnan(static_cast<float>(Half(value))), "NaN half stays NaN");
      continue;
    }
    if (Half(value).bits != half.bits) expect(false, str("half ", bits, " changes"));
    BFloat16 brain;
    brain.bits = static_cast<uint16_t>(bits);
    const float wide = static_cast<float>(brain);
    if (!std::isnan(wide) && BFloat16(wide).bits != brain.bits) {
      expect(false, str("bfloat16 ", bits, " changes"));
    }
  }
  expect(Half(1.0f + 1.0f / 2048).bits == Half(1.0f).bits, "tie goes to even, down");
  expect(Half(1.0f + 3.0f / 2048).bits == Half(1.0f + 4.0f / 2048).bits, "tie goes to even, up");
  expect(std::isinf(static_cast<float>(Half(65520.0f))), "65520 overflows");
  expect(static_cast<float>(Half(65519.0f)) == 65504.0f, "65519 does not");
  expect(Half(2.98023224e-8f).bits == 0, "half of the least subnormal is a tie to zero");
  expect(BFloat16(1.00390625f).bits == BFloat16(1.0f).bits, "bfloat16 tie to even");
}

void test_an_exception_leaves_the_parallel_region() {
  static const auto shape = [](ShapeContext& context) { context.set_output(0, context.dims(0)); };
  static const auto compute = [](KernelContext& context) {
    context.parallel_for(100, 1, [&](int64_t begin, int64_t) {
      MYOPS_EXPECT(context, begin < 40, "piece", str(begin), "less than 40");
    });
  };
  const Op op = Op("thrower")
                    .type("T", {DType::Float32})
                    .input({"x", "T", ""})
                    .output({"y", "T", ""})
                    .shape(+shape)
                    .kernel(+compute);
  std::vector<float> x(1);
  for (const Order order : {Order::Forward, Order::Backward, Order::Threads}) {
    // Always the lowest failing piece, whatever the order.
    refuses("exception", "thrower: piece: got 40, expected less than 40", [&] {
      TestRuntime runtime(order);
      invoke(op, {Tensor(x.data(), DType::Float32, {1})}, Attributes(op.attributes), runtime);
    });
  }
}

// All memory of a kernel counts together, and scratch memory only until it is released.
void test_the_memory_of_a_kernel_is_bounded() {
  static const auto shape = [](ShapeContext& context) { context.set_output(0, context.dims(0)); };
  static const auto compute = [](KernelContext& context) {
    const auto half = static_cast<size_t>(max_bytes() / 2);
    for (int round = 0; round < 3; ++round) {
      Budget().take("", "", "", half);  // another call's
      context.scratch(64);
    }
    context.take("a table", half);
    context.take("another table", half);
  };
  const Op op = Op("taker")
                    .type("T", {DType::UInt8})
                    .input({"x", "T", ""})
                    .output({"y", "T", ""})
                    .shape(+shape)
                    .kernel(+compute);
  std::vector<uint8_t> x(3);
  const int64_t half = max_bytes() / 2, left = max_bytes() - 3 - half;
  refuses("memory",
          str("taker: inputs: got another table (", half, " bytes), expected at most ", left,
              " bytes beside the ", half + 3,
              " that the call has taken; MYOPS_MAX_BYTES sets the "
              "limit"),
          [&] {
            TestRuntime runtime;
            invoke(op, {Tensor(x.data(), DType::UInt8, {3})}, Attributes(op.attributes), runtime);
          });
}

}  // namespace

int main() {
  test_every_order_gives_the_same_bits_and_no_overrun();
  test_resize_orders_and_guards();
  test_resize_values<float>(DType::Float32, 1e-4);
  test_resize_values<double>(DType::Float64, 1e-12);
  test_refusals();
  test_16_bit_floats();
  test_an_exception_leaves_the_parallel_region();
  test_the_memory_of_a_kernel_is_bounded();
  return finish("kernel tests");
}
