// my_add and deform_conv2d with axes of more than 2^31 elements: results are right, or refused by
// name; nothing wraps around. (resize: long_axes_resize_tests.cpp.)
#include <cmath>

#include "lazy_memory.h"
#include "resize_reference.h"

namespace {

using namespace lazy;

void test_my_add() {
  const Op& op = *find_op("my_add");
  const int64_t side = 65539;  // squared: more than 2^32
  struct Case {
    Shape a, b, c;
    Shape a_strides, b_strides;
  };
  const int64_t many = kWraps + 100001;
  const std::vector<Case> cases = {
      {{many}, {many}, {many}, {1}, {1}},
      {{many}, {1}, {many}, {1}, {1}},
      {{1}, {many}, {many}, {1}, {1}},
      {{many}, {many}, {many}, {0}, {1}},
      {{many}, {many}, {many}, {2}, {3}},
      {{side, 1}, {1, side}, {side, side}, {1, 1}, {side, 1}},
      {{side, side}, {side}, {side, side}, {side, 1}, {1}},
      {{side, side}, {side, side}, {side, side}, {1, side}, {side, 1}},
      {{3, side, side}, {3, 1, side}, {3, side, side}, {side * side, side, 1}, {0, 0, 1}},
      {{2, 1, many}, {3, 1}, {2, 3, many}, {many, many, 1}, {1, 1}}};
  for (const Case& it : cases) {
    for (const DType dtype : {DType::Float16, DType::Float32, DType::Int64}) {
      const Lazy a_memory(size_t{1} << 42), b_memory(size_t{1} << 42);
      const Tensor a(a_memory.get(), dtype, it.a, it.a_strides);
      const Tensor b(b_memory.get(), dtype, it.b, it.b_strides);
      // Numbers where the pieces around the wraps begin.
      const int64_t count = element_count(it.c);
      std::vector<std::pair<int64_t, double>> expected;
      for (const int64_t place : {int64_t{0}, int64_t{77}, count - 1, count - 78}) {
        int64_t a_at = 0, b_at = 0, rest = place;
        for (size_t axis = it.c.size(); axis-- > 0; rest /= it.c[axis]) {
          const int64_t index = rest % it.c[axis];
          const auto step = [&](const Shape& shape, const Shape& strides) {
            const size_t missing = it.c.size() - shape.size();
            const bool repeats = axis < missing || shape[axis - missing] == 1;
            return repeats ? 0 : index * strides[axis - missing];
          };
          a_at += step(it.a, it.a_strides);
          b_at += step(it.b, it.b_strides);
        }
        expected.emplace_back(place, 2 * mark(a, a_at) + mark(b, b_at));
      }
      TestRuntime runtime;
      invoke(op, {a, b}, Attributes(op.attributes), runtime);
      for (const auto& [place, number] : expected) {
        const double got = read(runtime.outputs[0], place);
        expect(got == number, str("my_add ", it.a, " ", it.b, " ", dtype_name(dtype), " at ", place,
                                  ": got ", got, ", expected ", number));
      }
    }
  }
}

// Samples X with a simple formula: bilinear, with zeros outside. Positions have the type of the
// arithmetic.
template <class Real>
double sample(const Tensor& X, int64_t n, int64_t c, Real y, Real x) {
  const int64_t height = X.shape[2], width = X.shape[3];
  const auto top = static_cast<int64_t>(std::floor(y)), left = static_cast<int64_t>(std::floor(x));
  double total = 0;
  for (const int64_t row : {top, top + 1}) {
    for (const int64_t column : {left, left + 1}) {
      if (row < 0 || row >= height || column < 0 || column >= width) continue;
      const int64_t offset =
          n * X.strides[0] + c * X.strides[1] + row * X.strides[2] + column * X.strides[3];
      const double fy = static_cast<double>(y) - static_cast<double>(top);
      const double fx = static_cast<double>(x) - static_cast<double>(left);
      const double weight = (row == top ? 1 - fy : fy) * (column == left ? 1 - fx : fx);
      total += weight * mark(X, offset);
    }
  }
  return total;
}

// One filter of 1 x 1 that adds up the channels: the result is the sum of samples, and with a
// gradient of ones that of W is the sum over all outputs.
void test_deform_conv2d() {
  const Op &forward = *find_op("deform_conv2d"), &backward = *find_op("deform_conv2d_backward");
  const int64_t most = 2147483646;
  struct Case {
    Shape X;
    Layout layout;
    std::vector<int64_t> strides;
  };
  const int64_t half = int64_t{1} << 30;
  const std::vector<Case> cases = {
      {{1, 1, 1, most}, Layout::Contiguous, {1, half}},
      {{1, 1, most, 1}, Layout::Contiguous, {half, 1}},
      {{1, 3, most - 1, 2}, Layout::Contiguous, {half / 2, 1}},
      {{2, 3, 2, most - 1}, Layout::ChannelsLast, {1, half / 2}},
      {{2, 2, 1 << 16, 1 << 17}, Layout::Contiguous, {1 << 14, 1 << 15}},
      {{1, 5, 1 << 17, 1 << 16}, Layout::ChannelsLast, {1 << 16, 1 << 14}},
      {{3, 16, 1 << 14, (1 << 14) + 1}, Layout::ChannelsLast, {1 << 13, 1 << 13}}};
  for (const Case& it : cases) {
    for (const DType dtype : {DType::Float16, DType::Float32, DType::Float64}) {
      const int64_t N = it.X[0], C = it.X[1];
      const int64_t oH = (it.X[2] - 1) / it.strides[0] + 1, oW = (it.X[3] - 1) / it.strides[1] + 1;
      const Lazy X_memory(byte_count(it.X, dtype)), others(1 << 20);
      const Tensor X(X_memory.get(), dtype, it.X, it.layout);
      char* next = static_cast<char*>(others.get());
      const auto make = [&](const Shape& shape, const std::function<double(int64_t)>& number) {
        const Tensor tensor(next, dtype, shape);
        next += byte_count(shape, dtype) + 64;
        with_type(dtype, [&](auto tag) {
          using T = typename decltype(tag)::type;
          for (int64_t i = 0; i < tensor.elements(); ++i) {
            tensor.as<T>()[i] = static_cast<T>(static_cast<float>(number(i)));
          }
        });
        return tensor;
      };
      const Tensor W = make({1, C, 1, 1}, [](int64_t) { return 1.0; });
      const Tensor offset = make({N, 2, oH, oW}, [](int64_t i) { return (i % 7 - 3) * 0.25; });
      const Tensor grad = make({N, 1, oH, oW}, [](int64_t) { return 1.0; });
      std::vector<double> expected, of_W(static_cast<size_t>(C), 0.0);
      for (int64_t i = 0; i < N * oH * oW; ++i) {
        const int64_t n = i / (oH * oW), u = i / oW % oH, v = i % oW;
        const int64_t at = n * 2 * oH * oW + u * oW + v;
        const double y = read(offset, at), x = read(offset, at + oH * oW);
        expected.push_back(0);
        for (int64_t c = 0; c < C; ++c) {
          const auto add = [&](auto real) {
            using Real = decltype(real);
            return sample<Real>(X, n, c,
                                static_cast<Real>(u * it.strides[0]) + static_cast<Real>(y),
                                static_cast<Real>(v * it.strides[1]) + static_cast<Real>(x));
          };
          const double value = dtype == DType::Float64 ? add(double()) : add(float());
          expected.back() += value;
          of_W[static_cast<size_t>(c)] += value;
        }
      }
      const std::string text = str("deform_conv2d ", dtype_name(dtype), " ", it.X);
      const auto compare = [&](const Tensor& got, const std::vector<double>& wanted) {
        for (size_t i = 0; i < wanted.size(); ++i) {
          const double number = read(got, static_cast<int64_t>(i));
          const double tolerance = dtype == DType::Float16 ? 2e-3 : 1e-5;
          if (std::abs(number - wanted[i]) <= tolerance * (1 + std::abs(wanted[i]))) continue;
          return expect(false, str(text, " at ", i, ": got ", number, ", expected ", wanted[i]));
        }
      };
      TestRuntime runtime;
      const auto strides = std::make_pair(std::string("strides"), AttributeValue(it.strides));
      invoke(forward, {X, W, offset, Tensor(), Tensor()}, attributes(forward, {strides}), runtime);
      compare(runtime.outputs[0], expected);
      TestRuntime gradients;  // all but that of X, which would be as large as X
      invoke(backward, {grad, X, W, offset, Tensor()},
             attributes(backward, {strides, {"needs", std::vector<int64_t>{0, 1, 1, 0}}}),
             gradients);
      compare(gradients.outputs[1], of_W);
      expect(gradients.outputs[2].shape == offset.shape, text + ": the gradient of offset");
    }
  }
  const Lazy memory(1 << 20);
  const Tensor W(memory.get(), DType::Float32, {1, 1, 1, 1});
  const Tensor long_X(memory.get(), DType::Float32, {1, 1, 1, most + 1}, Shape{0, 0, 0, 0});
  const Tensor offset(memory.get(), DType::Float32, {1, 2, 1, 1});
  expect(refusal_of([&] {
           TestRuntime runtime;
           invoke(forward, {long_X, W, offset, Tensor(), Tensor()}, Attributes(forward.attributes),
                  runtime);
         }) == "deform_conv2d: X: got width 2147483647, expected at most 2147483646",
         "an axis beyond what positions hold");
}

}  // namespace

int main() {
  limit_calls();
  test_my_add();
  test_deform_conv2d();
  expect_little_memory();
  return finish("tests of long axes");
}
