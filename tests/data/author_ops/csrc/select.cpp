// select: the elements where a mask is true.
#include <algorithm>

#include "myops/op.h"

namespace {
using namespace myops;

void shape(ShapeContext& context) {
  const Dims &x = context.dims(0), &mask = context.dims(1);
  bool same = x.size() == mask.size(), known = true;
  int64_t count = 1;
  for (size_t i = 0; i < x.size() && same; ++i) {
    same = !x[i].known() || !mask[i].known() || x[i] == mask[i];
    known = known && x[i].known();
    if (known) count *= x[i].value;
  }
  MYOPS_EXPECT(context, same, "mask", "shape " + shape_text(mask),
               "the shape of x, " + shape_text(x));
  context.set_output(0, {Dim::at_most(known ? Dim(count) : Dim())});
}

template <class T>
void compute(KernelContext& context) {
  const Tensor &x = context.input(0), &mask = context.input(1);
  const bool* chosen = mask.as<bool>();
  const int64_t count = x.elements();
  const int64_t kept = std::count(chosen, chosen + count, true);
  T* to = context.allocate_output(0, {kept}).as<T>();
  for (int64_t i = 0; i < count; ++i) {
    if (chosen[i]) *to++ = x.as<T>()[i];
  }
}

}  // namespace

MYOPS_OP(select) {
  return Op("select")
      .onnx("Select", 1)
      .doc("The elements of x where the mask is true, in one row.")
      .type("T", {DType::Float32, DType::Float64, DType::Int64})
      .type("M", {DType::Bool})
      .input({"x", "T", "Any tensor."})
      .input({"mask", "M", "Of the shape of x."})
      .output({"chosen", "T", "[K]."})
      .shape(shape)
      .kernel(MYOPS_TYPED(compute, float, double, int64_t));
}
