// top_k: the k largest numbers of each row, the largest first, and where they stood.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "myops/op.h"

namespace {
using namespace myops;

void shape(ShapeContext& context) {
  const Dims& x = context.dims(0);
  const int64_t k = context.attributes().integer("k");
  MYOPS_EXPECT(context, !x.empty(), "x", "rank 0", "rank 1 or more");
  MYOPS_EXPECT(context, !x.back().known() || k <= x.back().value, "k", str(k),
               str("at most ", x.back().value, ", the last length of x"));
  Dims result = x;
  result.back() = Dim(k);
  context.set_output(0, result);
  context.set_output(1, result);
}

template <class T>
void compute(KernelContext& context) {
  const Tensor &x = context.input(0), &values = context.output(0), &indices = context.output(1);
  const int64_t length = x.shape.back(), k = values.shape.back();
  const int64_t rows = length == 0 ? 0 : x.elements() / length;
  context.parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
    const auto order = context.scratch_array<int64_t>(length);
    for (int64_t row = begin; row < end; ++row) {
      const T* from = x.as<T>() + row * length;
      std::iota(order.begin(), order.end(), int64_t{0});
      // NaN is the largest, as in torch; of equal numbers the one with the lower index.
      std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t a, int64_t b) {
        const bool a_nan = std::isnan(from[a]), b_nan = std::isnan(from[b]);
        if (a_nan != b_nan) return a_nan;
        if (!a_nan && from[a] != from[b]) return from[a] > from[b];
        return a < b;
      });
      for (int64_t i = 0; i < k; ++i) {
        values.as<T>()[row * k + i] = from[order[i]];
        indices.as<int64_t>()[row * k + i] = order[i];
      }
    }
  });
}

}  // namespace

MYOPS_OP(top_k) {
  return Op("top_k")
      .onnx("TopKOfRows", 1)
      .doc("The k largest numbers of each row, and their indices.")
      .type("T", {DType::Float32, DType::Float64})
      .type("I", {DType::Int64})
      .input({"x", "T", "Of rank 1 or more; its last axis is a row."})
      .output({"values", "T", "The k largest of each row, the largest first."})
      .output({"indices", "I", "Their indices."})
      .attribute(Attribute{"k", int64_t{1}, "How many; at most the length of a row."}.at_least(0))
      .shape(shape)
      .kernel(MYOPS_TYPED(compute, float, double));
}
