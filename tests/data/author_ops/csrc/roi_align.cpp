// roi_align: the mean of bilinear samples in each cell of a box. The number of an image, which is
// no number to differentiate by, stands in one tensor with the corners of its box.
#include <algorithm>
#include <cmath>

#include "myops/op.h"

namespace {
using namespace myops;

struct Sizes {
  int64_t images, channels, rows, columns, high, wide;
};

// Calls found(cell, place in a plane, weight) for the four neighbours of each sample in a box.
template <class T, class Found>
void for_each_sample(const KernelContext& context, const Sizes& sizes, const T* box,
                     const Found& found) {
  const T scale = static_cast<T>(context.attributes().real("scale"));
  const int64_t samples = context.attributes().integer("samples");
  const T left = box[1] * scale - T(0.5), top = box[2] * scale - T(0.5);
  const T width = (box[3] - box[1]) * scale / static_cast<T>(sizes.wide * samples);
  const T height = (box[4] - box[2]) * scale / static_cast<T>(sizes.high * samples);
  const T weight = T(1) / static_cast<T>(samples * samples);
  const T last_row = static_cast<T>(sizes.rows - 1),
          last_column = static_cast<T>(sizes.columns - 1);
  for (int64_t i = 0; i < sizes.high * samples; ++i) {
    const T y = std::clamp(top + (static_cast<T>(i) + T(0.5)) * height, T(0), last_row);
    for (int64_t j = 0; j < sizes.wide * samples; ++j) {
      const T x = std::clamp(left + (static_cast<T>(j) + T(0.5)) * width, T(0), last_column);
      if (!(y >= 0 && x >= 0)) continue;  // NaN
      const auto y0 = static_cast<int64_t>(y), x0 = static_cast<int64_t>(x);
      const int64_t y1 = std::min(y0 + 1, sizes.rows - 1), x1 = std::min(x0 + 1, sizes.columns - 1);
      const T below = y - static_cast<T>(y0), right = x - static_cast<T>(x0);
      const int64_t cell = i / samples * sizes.wide + j / samples;
      found(cell, y0 * sizes.columns + x0, weight * (1 - below) * (1 - right));
      found(cell, y0 * sizes.columns + x1, weight * (1 - below) * right);
      found(cell, y1 * sizes.columns + x0, weight * below * (1 - right));
      found(cell, y1 * sizes.columns + x1, weight * below * right);
    }
  }
}

template <class T>
int64_t image_of(const KernelContext& context, const T* box, int64_t images) {
  const bool good = box[0] >= 0 && box[0] < static_cast<T>(images) && box[0] == std::floor(box[0]);
  MYOPS_EXPECT(context, good, "boxes", str("image ", box[0]),
               str("a whole number below ", images, ", the images of x"));
  return static_cast<int64_t>(box[0]);
}

Sizes sizes_of(const Tensor& x, const Tensor& y) {
  return {x.shape[0], x.shape[1], x.shape[2], x.shape[3], y.shape[2], y.shape[3]};
}

template <class T>
void compute(KernelContext& context) {
  const Tensor &x = context.input(0), &boxes = context.input(1), &y = context.output(0);
  const Sizes sizes = sizes_of(x, y);
  const int64_t plane = sizes.rows * sizes.columns, cells = sizes.high * sizes.wide;
  std::fill_n(y.as<T>(), y.elements(), T(0));
  context.parallel_for(boxes.shape[0], 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const T* box = boxes.as<T>() + 5 * n;
      const T* from = x.as<T>() + image_of(context, box, sizes.images) * sizes.channels * plane;
      T* to = y.as<T>() + n * sizes.channels * cells;
      if (plane == 0) continue;
      for_each_sample<T>(context, sizes, box, [&](int64_t cell, int64_t place, T weight) {
        for (int64_t c = 0; c < sizes.channels; ++c) {
          to[c * cells + cell] += weight * from[c * plane + place];
        }
      });
    }
  });
}

template <class T>
void differentiate(KernelContext& context) {
  const Tensor &grad = context.input(0), &x = context.input(1), &boxes = context.input(2);
  const Sizes sizes = sizes_of(x, grad);
  const int64_t plane = sizes.rows * sizes.columns, cells = sizes.high * sizes.wide;
  T* to_x = context.output(0).as<T>();
  std::fill_n(to_x, x.elements(), T(0));
  if (plane == 0) return;
  context.parallel_for(sizes.channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = 0; n < boxes.shape[0]; ++n) {
      const T* box = boxes.as<T>() + 5 * n;
      const int64_t first = image_of(context, box, sizes.images) * sizes.channels;
      for_each_sample<T>(context, sizes, box, [&](int64_t cell, int64_t place, T weight) {
        for (int64_t c = begin; c < end; ++c) {
          to_x[(first + c) * plane + place] +=
              weight * grad.as<T>()[(n * sizes.channels + c) * cells + cell];
        }
      });
    }
  });
}

}  // namespace

MYOPS_OP(roi_align) {
  return Op("roi_align")
      .onnx("BoxAlign", 1)
      .doc("Boxes of images, resampled to one size.")
      .type("T", {DType::Float32, DType::Float64})
      .input({"x", "T", "[N, C, H, W]."})
      .input({"boxes", "T", "[K, 5]: the number of an image, left, top, right, bottom."})
      .output({"y", "T", "[K, C, height, width]."})
      .attribute(Attribute{"height", int64_t{1}, "Of a result."}.at_least(1).required())
      .attribute(Attribute{"width", int64_t{1}, "Of a result."}.at_least(1).required())
      .attribute(Attribute{"scale", 1.0, "From coordinates of a box to those of x."}.above(0))
      .attribute(Attribute{"samples", int64_t{2}, "Along each side of a cell."}.at_least(1))
      .shape("N C H W, K 5 -> K C height width")
      .kernel(MYOPS_TYPED(compute, float, double));
}

MYOPS_OP(roi_align_backward) {
  return backward_of(describe_roi_align(), {"x"}).kernel(MYOPS_TYPED(differentiate, float, double));
}
