// window_sums: sums over square windows, and a number for each channel. Its shape rule is text:
// any number of leading axes, which are broadcast, and lengths that attributes decide.
#include "myops/op.h"

namespace {
using namespace myops;

// The element of a tensor with `trailing` axes behind its broadcast ones where block `index` of a
// result of leading lengths `lead` begins.
int64_t block_of(const Tensor& tensor, const Shape& lead, size_t trailing, int64_t index) {
  const size_t own = tensor.shape.size() - trailing;
  int64_t offset = 0;
  for (size_t axis = lead.size(); axis-- > 0;) {
    const int64_t place = index % lead[axis];
    index /= lead[axis];
    if (axis + own < lead.size()) continue;
    const size_t mine = axis + own - lead.size();
    if (tensor.shape[mine] != 1) offset += place * tensor.strides[mine];
  }
  return offset;
}

template <class T>
void compute(KernelContext& context) {
  const Tensor &x = context.input(0), &bias = context.input(1), &y = context.output(0);
  const int64_t size = context.attributes().integer("size");
  const int64_t step = context.attributes().integer("step");
  const size_t rank = y.shape.size();
  const Shape lead(y.shape.begin(), y.shape.end() - 3);
  const int64_t channels = y.shape[rank - 3], rows = y.shape[rank - 2], columns = y.shape[rank - 1];
  const int64_t width = x.shape.back(), plane = width * x.shape[x.shape.size() - 2];
  context.parallel_for(element_count(lead) * channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t channel = item % channels, block = item / channels;
      const T* from = x.as<T>() + block_of(x, lead, 3, block) + channel * plane;
      const T added = bias.as<T>()[block_of(bias, lead, 1, block) + channel];
      T* to = y.as<T>() + item * rows * columns;
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          T sum = 0;
          for (int64_t k = 0; k < size; ++k) {
            for (int64_t l = 0; l < size; ++l) {
              sum += from[(i * step + k) * width + j * step + l];
            }
          }
          to[i * columns + j] = sum + added;
        }
      }
    }
  });
}

}  // namespace

MYOPS_OP(window_sums) {
  return Op("window_sums")
      .onnx("WindowSums", 1)
      .doc("Sums over square windows, and a number for each channel.")
      .type("T", {DType::Float32, DType::Float64})
      .input({"x", "T", "[..., C, H, W]."})
      .input({"bias", "T", "[..., C]; the leading axes are broadcast with those of x."})
      .output({"y", "T", "[..., C, rows, columns]."})
      .attribute(Attribute{"size", int64_t{2}, "Rows and columns of a window."}.at_least(1))
      .attribute(Attribute{"step", int64_t{1}, "From one window to the next."}.at_least(1))
      .shape("... C H W, ... C -> ... C {(H - size) // step + 1} {(W - size) // step + 1}")
      .kernel(MYOPS_TYPED(compute, float, double));
}
