// Calls of kernels for CUDA that random ones hardly reach: exact sums, TF32, long lists of samples,
// masks that are not finite, ops of other kinds than ours.
#include <cmath>

#include "../checking.h"
#include "compare.h"
#include "cuda_tests.h"

using namespace fake_cuda;

namespace {

// Products and sums of small integers are exact in every type, so an element at a wrong position in
// a register changes the result.
void test_products_of_integers() {
  int launched = 0;
  for (int seed = 0; seed < 60 / kFraction; ++seed) {
    Random random(static_cast<uint64_t>(seed));
    for (int order = 0; order < 2; ++order) {
      const std::unique_ptr<Case> made = integer_deform(random, order);
      for (const Place& place : {Place{0, true}, Place{0, false}, Place{3, true}}) {
        Compared compared;
        compare(*made, Wanted::Numbers, compared, place);
        launched += compared.calls;
      }
    }
  }
  expect(launched > 300 / kFraction, "integer products");
}

// float32 with TF32 off is not rounded, and float64 never is.
void test_tf32_only_if_requested() {
  Random random(3);
  for (const DType dtype : {DType::Float32, DType::Float64}) {
    Case made("deform_conv2d");
    made.add_numbers(random, dtype, {1, 8, 6, 6});
    made.add_numbers(random, dtype, {16, 8, 1, 1});
    made.add_numbers(random, dtype, {1, 2, 6, 6});
    made.add_nothing();
    made.add_nothing();
    DeviceRuntime exact, coarse;
    coarse.tf32 = true;
    run_on_device(made, exact, 0);
    run_on_device(made, coarse, 0);
    const double most = difference(exact.outputs[0], coarse.outputs[0]);
    expect(dtype == DType::Float32 ? most > 80 : most == 0, str("TF32 changes by ", most, " ulp"));
  }
}

// Many entries in one cell, more rows than a tile has, and many slices of pixels; with few outputs,
// and with so many that products are made in tiles.
void test_larger_deform_conv2d() {
  for (const auto& [outputs, size] : {std::pair<int64_t, int64_t>(3, 40), {18, 24}}) {
    for (const bool backward : {false, true}) {
      Case made(backward ? "deform_conv2d_backward" : "deform_conv2d");
      made.set("pads", std::vector<int64_t>{1, 1, 1, 1});
      Random random(5);
      if (backward) made.add_numbers(random, DType::Float32, {2, outputs, size, size});
      made.add_numbers(random, DType::Float32, {2, 5, size, size});
      made.add_numbers(random, DType::Float32, {outputs, 5, 3, 3});
      made.add_numbers(random, DType::Float32, {2, 18, size, size}, 100);
      if (!backward) made.add_nothing();
      made.add_nothing();
      Compared compared;
      compare(made, Wanted::Close, compared);
    }
  }
}

// All taps in few cells: lists that are longer than those that are not sorted.
void test_long_lists() {
  Case made("deform_conv2d_backward");
  made.set("pads", std::vector<int64_t>{1, 1, 1, 1});
  Random random(6);
  made.add_numbers(random, DType::Float32, {2, 16, 9, 11});
  made.add_numbers(random, DType::Float32, {2, 3, 9, 11});
  made.add_numbers(random, DType::Float32, {16, 3, 3, 3});
  made.add_numbers(random, DType::Float32, {2, 18, 9, 11});
  const Tensor& offset = made.inputs.back();
  for (int64_t i = 0; i < offset.elements(); ++i) {  // all near (4, 5)
    const int64_t plane = i / 99 % 18, pixel = i % 99, tap = plane / 2;
    const int64_t from = plane % 2 == 0 ? pixel / 11 - 1 + tap / 3 : pixel % 11 - 1 + tap % 3;
    offset.as<float>()[i] += static_cast<float>((plane % 2 == 0 ? 4 : 5) - from);
  }
  made.add_nothing();
  Compared compared;
  compare(made, Wanted::Close, compared);
}

// What a mask that is not finite makes of a sample, inside of the image and outside: channels that
// fill up a pack must not appear in a result.
void test_infinite_masks() {
  for (const int64_t channels : {3, 8}) {
    Case made("deform_conv2d");
    Random random(7);
    made.add_integers(random, DType::Float32, {1, channels, 6, 6}, 3);
    made.add_integers(random, DType::Float32, {16, channels, 1, 1}, 3);
    for (const Tensor& input : made.inputs) {  // positive, so that infinite sums are not NaN
      for (int64_t i = 0; i < input.elements(); ++i) {
        input.as<float>()[i] = std::abs(input.as<float>()[i]) + 1;
      }
    }
    made.add_numbers(random, DType::Float32, {1, 2, 6, 6}, 0.9);
    made.add_nothing();
    made.add_numbers(random, DType::Float32, {1, 1, 6, 6});
    const Tensor& mask = made.inputs.back();
    for (int64_t i = 0; i < 36; i += 5) mask.as<float>()[i] = i % 2 == 0 ? INFINITY : -INFINITY;
    Compared compared;
    compare(made, Wanted::Close, compared);
  }
}

// Ops of other kinds than ours: probe_ops.cpp.
void test_lists_and_optional_outputs() {
  for (const bool wanted : {false, true}) {
    for (const int items : {1, 3}) {
      Random random(static_cast<uint64_t>(items));
      Case made("list_probe");
      made.set("with_largest", wanted);
      for (int i = 0; i < items; ++i) made.add_numbers(random, DType::Float32, {300});
      Compared compared;
      compare(made, Wanted::Bits, compared);
      expect(compared.calls == (wanted ? 2 : 1), "outputs of a list");
    }
  }
}

void test_random_numbers() {
  Random random(1);
  Case made("noise_probe");
  made.set("seed", int64_t{7});
  made.add_numbers(random, DType::Float32, {1000});
  made.add_nothing();  // the key
  Compared compared;
  compare(made, Wanted::Bits, compared);
}

}  // namespace

void test_chosen_calls() {
  test_products_of_integers();
  test_tf32_only_if_requested();
  test_larger_deform_conv2d();
  test_long_lists();
  test_infinite_masks();
  test_lists_and_optional_outputs();
  test_random_numbers();
}
