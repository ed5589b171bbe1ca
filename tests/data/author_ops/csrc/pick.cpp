// pick: the rows of a table at given indices. What an index may be depends on the table.
#include <algorithm>

#include "myops/op.h"

namespace {
using namespace myops;

template <class T>
void compute(KernelContext& context) {
  const View<const T, 2> table(context.input(0));
  const View<const int64_t, 1> index(context.input(1));
  const View<T, 2> out(context.output(0));
  for (int64_t i = 0; i < index.length(0); ++i) {
    if (index(i) < 0 || index(i) >= table.length(0)) {
      throw Error(str("pick: index: got ", index(i), ", expected 0 to ", table.length(0) - 1));
    }
    for (int64_t c = 0; c < table.length(1); ++c) out(i, c) = table(index(i), c);
  }
}

}  // namespace

MYOPS_OP(pick) {
  return Op("pick")
      .onnx("Pick", 1)
      .doc("Rows of a table.")
      .type("T", {DType::Float32, DType::Float64})
      .type("I", {DType::Int64})
      .input({"table", "T", "[R, C]."})
      .input({"index", "I", "[N], from 0 to R - 1."})
      .output({"rows", "T", "[N, C]."})
      .shape("R C, N -> N C")
      .kernel(MYOPS_TYPED(compute, float, double));
}
