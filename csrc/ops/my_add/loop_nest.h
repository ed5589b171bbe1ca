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

// Adjacent axes that form one run of memory in all tensors become one: two contiguous tensors are a
// single axis. There is at least one axis.
inline Axes merged(const Axes& axes) {
  Axes all;
  for (const Axis& axis : axes) {
    if (!all.empty()) {
      Axis& last = all.back();
      if (last.a == axis.a * axis.length && last.b == axis.b * axis.length &&
          last.c == axis.c * axis.length) {
        last = {last.length * axis.length, axis.a, axis.b, axis.c};
        continue;
      }
    }
    all.push_back(axis);
  }
  if (all.empty()) all.push_back({1, 0, 0, 1});
  return all;
}

// The loop nest, outermost axis first in memory order of the result.
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
  return merged(axes);
}

// Whether an operand has its elements in memory as the result has them.
inline bool lies_as_result(const Axes& axes, int64_t Axis::* step) {
  return std::all_of(axes.begin(), axes.end(),
                     [&](const Axis& axis) { return axis.*step == axis.c; });
}

// Whether each row of an operand is the same one.
inline bool is_one_row(const Axes& axes, int64_t Axis::* step) {
  return std::all_of(axes.begin(), axes.end() - 1,
                     [&](const Axis& axis) { return axis.*step == 0; });
}

struct Block {
  int64_t rows, columns;
};

// A place in the loop nest: an element of the result, and what belongs to it of the operands.
// Counts, because divisions cost more than short rows.
template <class T>
class Place {
 public:
  Place(const Axes& axes, const T* a_, const T* b_, T* c_, int64_t element)
      : a(a_), b(b_), c(c_), axes_(axes), index_(axes.size(), 0) {
    for (size_t i = axes.size(); i-- > 0; element /= axes[i].length) {
      index_[i] = element % axes[i].length;
      move(axes[i], index_[i]);
    }
    column = index_.back();
  }

  // The number in the axis outside of the innermost one.
  int64_t row() const { return axes_.size() > 1 ? index_[axes_.size() - 2] : 0; }

  // What follows, of at most `most` elements: whole rows of that axis or, if there is none, a part
  // of a row.
  Block block(int64_t most) const {
    const int64_t length = axes_.back().length;
    if (column != 0 || most < length) return {1, std::min(length - column, most)};
    const int64_t rows =
        axes_.size() > 1 ? axes_[axes_.size() - 2].length - index_[axes_.size() - 2] : 1;
    return {std::min(rows, most / length), length};
  }

  // Over a block.
  void advance(int64_t rows, int64_t columns) {
    const Axis& inner = axes_.back();
    move(inner, columns);
    column += columns;
    if (column < inner.length) return;
    move(inner, -inner.length);
    column = 0;
    int64_t steps = rows;
    for (size_t i = axes_.size() - 1; i-- > 0; steps = 1) {
      move(axes_[i], steps);
      if ((index_[i] += steps) < axes_[i].length) return;
      move(axes_[i], -axes_[i].length);
      index_[i] = 0;
    }
  }

  const T *a, *b;
  T* c;
  int64_t column;  // in the innermost axis

 private:
  void move(const Axis& axis, int64_t steps) {
    a += steps * axis.a;
    b += steps * axis.b;
    c += steps * axis.c;
  }

  const Axes& axes_;
  SmallVector<int64_t, 6> index_;
};

}  // namespace myops::my_add::MYOPS_ISA
