// peak: the largest number of each row; where it stood, and its weight, on demand.
#include <cmath>

#include "myops/op.h"

namespace {
using namespace myops;

void shape(ShapeContext& context) {
  Lengths lengths(context);
  lengths.match(0, "R C").match(1, "C");
  MYOPS_EXPECT(context, !lengths["C"].known() || lengths["C"].value > 0, "x", "rows of length 0",
               "at least 1");
  context.set_output(0, {lengths["R"]});
  context.set_output(1, {lengths["R"]});
  if (context.has(1)) context.set_output(2, {lengths["R"]});
}

template <class T>
void compute(KernelContext& context) {
  const Tensor &x = context.input(0), &weight = context.input(1);
  const Tensor &largest = context.output(0), &index = context.output(1), &at = context.output(2);
  const int64_t columns = x.shape[1];
  context.parallel_for(x.shape[0], 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* from = x.as<T>() + row * columns;
      int64_t best = 0;
      for (int64_t i = 1; i < columns; ++i) {
        if (!std::isnan(from[best]) && !(from[i] <= from[best])) best = i;
      }
      largest.as<T>()[row] = from[best];
      if (index.present) index.as<int64_t>()[row] = best;
      if (at.present) at.as<T>()[row] = weight.as<T>()[best];
    }
  });
}

}  // namespace

MYOPS_OP(peak) {
  return Op("peak")
      .onnx("Peak", 1)
      .doc("The largest number of each row.")
      .type("T", {DType::Float32, DType::Float64})
      .type("I", {DType::Int64})
      .input({"x", "T", "[R, C], with at least one column."})
      .input(Input{"weight", "T", "[C]: a number for each column."}.optional())
      .output({"largest", "T", "[R]; NaN if the row has one."})
      .output(
          Output{"index", "I", "[R]: its column, the first of several."}.only_if("return_index"))
      .output(Output{"at", "T", "[R]: the weight of this column."}.only_if("weight"))
      .attribute({"return_index", false, "Whether index is computed."})
      .shape(shape)
      .kernel(MYOPS_TYPED(compute, float, double));
}
