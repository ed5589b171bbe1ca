// clamp_rows_: an upper limit for each row, in place; an op without outputs.
#include "myops/op.h"

namespace {
using namespace myops;

template <class T>
void compute(KernelContext& context) {
  const Tensor &x = context.input(0), &top = context.input(1);
  const int64_t rows = x.shape[0], each = rows ? x.elements() / rows : 0;
  context.parallel_for(rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * each; i < end * each; ++i) {
      T& value = x.as<T>()[i];
      if (value > top.as<T>()[i / each]) value = top.as<T>()[i / each];
    }
  });
}

}  // namespace

MYOPS_OP(clamp_rows_) {
  return Op("clamp_rows_")
      .doc("Limits the numbers of each row from above, in place.")
      .type("T", {DType::Float32, DType::Float64})
      .input(Input{"x", "T", "Any tensor with rows."}.written())
      .input({"top", "T", "[rows]: the limits."})
      .shape("R S..., R ->")
      .kernel(MYOPS_TYPED(compute, float, double));
}

MYOPS_OP(clamp_rows) { return functional_of(describe_clamp_rows_()).onnx("ClampRows", 1); }
