// nms: non-maximum suppression. How many boxes remain is known when they have been compared.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "myops/op.h"

namespace {
using namespace myops;

struct Box {
  double left, top, right, bottom, area;
};

// Corners in any order, as in ONNX.
template <class T>
Box box_at(const Tensor& boxes, int64_t index) {
  const T* p = boxes.as<T>() + 4 * index;
  Box box{std::min<double>(p[0], p[2]), std::min<double>(p[1], p[3]), std::max<double>(p[0], p[2]),
          std::max<double>(p[1], p[3]), 0};
  box.area = (box.right - box.left) * (box.bottom - box.top);
  return box;
}

bool overlap(const Box& a, const Box& b, double threshold) {
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (!(width > 0 && height > 0 && a.area > 0 && b.area > 0)) return false;
  const double both = width * height;
  return both / (a.area + b.area - both) > threshold;
}

template <class T>
void compute(KernelContext& context) {
  const Tensor &boxes = context.input(0), &scores = context.input(1);
  const double threshold = context.attributes().real("threshold");
  const int64_t count = scores.elements();
  auto order = context.scratch_array<int64_t>(count);
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto score = [&](int64_t i) {  // NaN is the lowest
    const T value = scores.as<T>()[i];
    return std::isnan(value) ? -HUGE_VAL : static_cast<double>(value);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return score(a) > score(b); });
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Box box = box_at<T>(boxes, order[i]);
    const bool suppressed = std::any_of(order.begin(), order.begin() + kept, [&](int64_t other) {
      return overlap(box, box_at<T>(boxes, other), threshold);
    });
    if (!suppressed) order[kept++] = order[i];
  }
  context.set_length("K", kept);
  for (int64_t i = 0; i < kept; ++i) {
    context.output(1).as<int64_t>()[i] = order[i];
    std::copy_n(boxes.as<T>() + 4 * order[i], 4, context.output(0).as<T>() + 4 * i);
  }
}

}  // namespace

MYOPS_OP(nms) {
  return Op("nms")
      .onnx("Nms", 1)
      .doc("The boxes that no box of a higher score overlaps by more than a threshold.")
      .type("T", {DType::Float32, DType::Float64})
      .type("I", {DType::Int64})
      .input({"boxes", "T", "[N, 4]: two opposite corners each."})
      .input({"scores", "T", "[N]."})
      .output({"kept", "T", "[K, 4], the highest score first."})
      .output({"indices", "I", "[K]: where they stand in boxes."})
      .attribute(Attribute{"threshold", 0.5, "Intersection over union."}.at_least(0))
      .shape("N 4, N -> K<=N 4, K<=N")
      .kernel(MYOPS_TYPED(compute, float, double));
}
