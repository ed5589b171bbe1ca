// The axes of a broadcast. Compiled for each instruction set, and for what launches the CUDA
// kernel: MYOPS_ISA is the namespace.
#pragma once

#include <algorithm>

#include "myops/tensor.h"

namespace myops::my_add::MYOPS_ISA {

// Strides of an operand along the axes of the result; 0 where it is repeated.
inline Shape operand_strides(const Tensor& operand, const Shape& shape) {
  Shape strides(shape.size(), 0);
  const size_t lead = shape.size() - operand.shape.size();
  for (size_t axis = lead; axis < shape.size(); ++axis) {
    strides[axis] = operand.shape[axis - lead] == 1 ? 0 : operand.strides[axis - lead];
  }
  return strides;
}

struct Axis {
  int64_t length, a, b, c;  // length, then the step of each tensor in elements
};
using Axes = SmallVector<Axis, 6>;

// The loop nest, outermost axis first in memory order of the result. Adjacent axes that form one
// run of memory are merged: two contiguous tensors are a single axis.
inline Axes loop_nest(const Tensor& a, const Tensor& b, const Tensor& c) {
  const Shape a_strides = operand_strides(a, c.shape);
  const Shape b_strides = operand_strides(b, c.shape);
  Axes axes;
  for (size_t i = 0; i < c.shape.size(); ++i) {
    if (c.shape[i] != 1) axes.push_back({c.shape[i], a_strides[i], b_strides[i], c.strides[i]});
  }
  const auto outer = [](const Axis& left, const Axis& right) { return left.c > right.c; };
  if (!std::is_sorted(axes.begin(), axes.end(), outer)) {  // the sort allocates
    std::stable_sort(axes.begin(), axes.end(), outer);
  }
  Axes merged;
  for (const Axis& axis : axes) {
    if (!merged.empty()) {
      Axis& last = merged.back();
      if (last.a == axis.a * axis.length && last.b == axis.b * axis.length &&
          last.c == axis.c * axis.length) {
        last = {last.length * axis.length, axis.a, axis.b, axis.c};
        continue;
      }
    }
    merged.push_back(axis);
  }
  if (merged.empty()) merged.push_back({1, 0, 0, 1});
  return merged;
}

}  // namespace myops::my_add::MYOPS_ISA
