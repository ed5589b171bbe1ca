// concat: any number of tensors along one axis.
#include <cstring>

#include "myops/op.h"

namespace {
using namespace myops;

void shape(ShapeContext& context) {
  Dims result = context.dims(0);
  const auto rank = static_cast<int64_t>(result.size());
  const int64_t axis = context.attributes().integer("axis");
  MYOPS_EXPECT(context, axis >= 0 && axis < rank, "axis", str(axis), str("0 to ", rank - 1));
  const auto along = static_cast<size_t>(axis);
  for (size_t i = 1; i < context.input_count(); ++i) {
    const Dims& dims = context.dims(i);
    bool fits = dims.size() == result.size();
    for (size_t k = 0; fits && k < dims.size(); ++k) {
      if (k == along) {
        const bool known = dims[k].known() && result[k].known();
        result[k] = known ? Dim(result[k].value + dims[k].value) : Dim();
      } else {
        fits = !dims[k].known() || !result[k].known() || dims[k] == result[k];
        if (!result[k].known() && (dims[k].known() || result[k].symbol.empty())) {
          result[k] = dims[k];
        }
      }
    }
    MYOPS_EXPECT(context, fits, context.input_name(i), "shape " + shape_text(dims),
                 str("that of tensors[0], ", shape_text(context.dims(0)), ", but on axis ", axis));
  }
  context.set_output(0, result);
}

void compute(KernelContext& context) {
  const Tensor& out = context.output(0);
  const auto axis = static_cast<size_t>(context.attributes().integer("axis"));
  const size_t size = dtype_size(out.dtype);
  int64_t outer = 1;
  for (size_t k = 0; k < axis; ++k) outer *= out.shape[k];
  if (outer == 0) return;
  const size_t step = static_cast<size_t>(out.elements() / outer) * size;
  size_t start = 0;
  for (size_t i = 0; i < context.input_count(); ++i) {
    const Tensor& x = context.input(i);
    const size_t bytes = static_cast<size_t>(x.elements() / outer) * size;
    for (size_t row = 0; bytes > 0 && row < static_cast<size_t>(outer); ++row) {
      std::memcpy(out.as<char>() + row * step + start, x.as<char>() + row * bytes, bytes);
    }
    start += bytes;
  }
}

}  // namespace

MYOPS_OP(concat) {
  return Op("concat")
      .onnx("ConcatTensors", 1)
      .doc("Tensors, one behind the other.")
      .type("T", {DType::Float32, DType::Float64, DType::Int64})
      .input(Input{"tensors", "T", "One or more, of one shape but for the axis."}.variadic())
      .output({"result", "T", "Their elements along the axis."})
      .attribute({"axis", int64_t{0}, "Of the tensors; not negative."})
      .shape(shape)
      .kernel(compute);
}
