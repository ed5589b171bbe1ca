// ball_query: which points lie near each centre. How many pairs there are is known at the end;
// their gradient is a kernel.
#include <algorithm>
#include <vector>

#include "myops/op.h"

namespace {
using namespace myops;

// Calls found(centre, point, square of the distance) for each pair within the radius, in order.
template <class T, class Found>
void for_each_pair(const KernelContext& context, const Tensor& centres, const Tensor& points,
                   const Found& found) {
  const auto radius = static_cast<T>(context.attributes().real("radius"));
  for (int64_t m = 0; m < centres.shape[0]; ++m) {
    for (int64_t n = 0; n < points.shape[0]; ++n) {
      T square = 0;
      for (int64_t k = 0; k < 3; ++k) {
        const T step = centres.as<T>()[3 * m + k] - points.as<T>()[3 * n + k];
        square += step * step;
      }
      if (square <= radius * radius) found(m, n, square);
    }
  }
}

template <class T>
void compute(KernelContext& context) {
  const Tensor &centres = context.input(0), &points = context.input(1);
  std::vector<int64_t> indices;
  std::vector<T> squares;
  int64_t* ends = context.output(0).as<int64_t>();
  std::fill_n(ends, centres.shape[0], int64_t{0});
  for_each_pair<T>(context, centres, points, [&](int64_t m, int64_t n, T square) {
    indices.push_back(n);
    squares.push_back(square);
    ++ends[m];
  });
  for (int64_t m = 1; m < centres.shape[0]; ++m) ends[m] += ends[m - 1];
  const auto count = static_cast<int64_t>(indices.size());
  std::copy(indices.begin(), indices.end(),
            context.allocate_output(1, {count}).template as<int64_t>());
  const Tensor& out = context.allocate_output(2, {count});
  if (out.present) std::copy(squares.begin(), squares.end(), out.as<T>());
}

template <class T>
void differentiate(KernelContext& context) {
  const Tensor &grad = context.input(2), &centres = context.input(3), &points = context.input(4);
  T *to_centres = context.output(0).as<T>(), *to_points = context.output(1).as<T>();
  std::fill_n(to_centres, centres.elements(), T(0));
  std::fill_n(to_points, points.elements(), T(0));
  if (!grad.present) return;  // the call left the squares out
  int64_t pair = 0;
  for_each_pair<T>(context, centres, points, [&](int64_t m, int64_t n, T) {
    MYOPS_EXPECT(context, pair < grad.elements(), "grad_squares",
                 str("shape [", grad.elements(), "]"), "one number for each pair");
    const T twice = 2 * grad.as<T>()[pair++];
    for (int64_t k = 0; k < 3; ++k) {
      const T step = centres.as<T>()[3 * m + k] - points.as<T>()[3 * n + k];
      to_centres[3 * m + k] += twice * step;
      to_points[3 * n + k] -= twice * step;
    }
  });
}

}  // namespace

MYOPS_OP(ball_query) {
  return Op("ball_query")
      .onnx("BallQuery", 1)
      .doc("The points within a radius of each centre.")
      .type("T", {DType::Float32, DType::Float64})
      .type("I", {DType::Int64})
      .input({"centres", "T", "[M, 3]."})
      .input({"points", "T", "[N, 3]."})
      .output({"ends", "I", "[M]: where in the pairs those of a centre end."})
      .output({"indices", "I", "[K]: the point of each pair."})
      .output(Output{"squares", "T", "[K]: of the distance."}.only_if("return_squares"))
      .attribute(Attribute{"radius", 1.0, "How far is near."}.at_least(0))
      .attribute({"return_squares", false, "Whether squares is computed."})
      .shape("M 3, N 3 -> M, K<=(M * N), K<=(M * N)")
      .kernel(MYOPS_TYPED(compute, float, double));
}

// MYOPS_TYPED would go by the first input, which is the gradient of integers here.
MYOPS_OP(ball_query_backward) {
  return backward_of(describe_ball_query(), {"centres", "points"})
      .kernel([](KernelContext& context) {
        dispatch<float, double>(context.input(3).dtype, [&](auto tag) {
          differentiate<typename decltype(tag)::type>(context);
        });
      });
}
