#include "elementwise_order.h"

#include <algorithm>

namespace myops {
namespace {

// The strides of an input along the axes of the result; 0 where it is repeated.
Shape strides_in(const Tensor& input, const Shape& shape) {
  Shape strides(shape.size(), 0);
  const size_t lead = shape.size() - input.shape.size();
  for (size_t axis = lead; axis < shape.size(); ++axis) {
    const bool repeated = input.shape[axis - lead] == 1 && shape[axis] != 1;
    strides[axis] = repeated ? 0 : input.strides[axis - lead];
  }
  return strides;
}

}  // namespace

Shape elementwise_strides(const TensorPointers& inputs, const Shape& shape) {
  SmallVector<Shape, 2> strides;
  for (const Tensor* input : inputs) {
    if (input->present) strides.push_back(strides_in(*input, shape));
  }
  // Positive: axis `left` is slower in memory than `right`; 0: no input decides.
  const auto compare = [&](size_t left, size_t right) {
    for (const Shape& input : strides) {
      if (input[left] == 0 || input[right] == 0) continue;
      if (input[left] != input[right]) return input[left] < input[right] ? -1 : 1;
      if (shape[left] > shape[right]) return 1;
    }
    return 0;
  };
  SmallVector<size_t, 6> order;  // the fastest axis first
  for (size_t axis = shape.size(); axis-- > 0;) {
    order.push_back(axis);
    size_t at = order.size() - 1;
    for (size_t before = at; before-- > 0;) {
      const int found = compare(order[before], order[at]);
      if (found < 0) break;
      if (found == 0) continue;
      std::swap(order[before], order[at]);
      at = before;
    }
  }
  Shape result(shape.size());
  int64_t step = 1;
  for (size_t axis : order) {
    result[axis] = step;
    step *= std::max<int64_t>(shape[axis], 1);
  }
  return result;
}

}  // namespace myops
