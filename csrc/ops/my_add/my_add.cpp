// my_add: c = 2a + b with NumPy broadcasting.
//
// float16 and bfloat16 are computed in float32 and rounded once; integers wrap around, as in torch.
// Any strides are read without a copy. Empty tensors are allowed.
#include "cuda/entry.h"
#include "kernels.h"
#include "myops/op.h"

namespace myops::my_add {
namespace {

// One axis of the broadcast: equal lengths, or one of them 1.
Dim broadcast(const ShapeContext& context, const Dims& left, const Dims& right, size_t axis,
              size_t rank) {
  const Dim one(1);
  const Dim& a = axis + left.size() < rank ? one : left[axis + left.size() - rank];
  const Dim& b = axis + right.size() < rank ? one : right[axis + right.size() - rank];
  if (a == b || b.value == 1) return a;
  if (a.value == 1) return b;
  if (a.known() && b.known()) {
    fail(context.op_name(), "b", str("length ", b.value, " on axis ", axis),
         str("1 or ", a.value, ", the length of a there"));
  }
  return a.known() ? a : b.known() ? b : Dim();  // an unknown length can only be 1 or the known one
}

void shape(ShapeContext& context) {
  const Dims& a = context.dims(0);
  const Dims& b = context.dims(1);
  Dims c(std::max(a.size(), b.size()));
  for (size_t axis = 0; axis < c.size(); ++axis) c[axis] = broadcast(context, a, b, axis, c.size());
  context.set_output(0, c);
}

void compute(KernelContext& context) { MYOPS_CHOOSE(forward)(context); }

}  // namespace

MYOPS_OP(my_add) {
  return Op("my_add")
      .onnx("MyAdd", 1)
      .doc("2a + b, element by element, with NumPy broadcasting.")
      .type("T", {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64, DType::Int32,
                  DType::Int64})
      .input(Input{"a", "T", "The addend that is doubled."}.access(Access::Strided))
      .input(Input{"b", "T", "The other addend."}.access(Access::Strided))
      .output(Output{"c", "T", "2a + b, of the broadcast shape of a and b."}
                  .may_overwrite({"a", "b"})
                  .elementwise())
      .shape(shape)
      .autocast(Autocast::Widest)
      .kernel(compute)
      .cuda(compute_cuda);
}

}  // namespace myops::my_add
