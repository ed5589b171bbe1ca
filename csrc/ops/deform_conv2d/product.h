// The one matrix product of this room. Every sum has an order that shapes alone decide.
#pragma once

#include "myops/simd.h"

namespace myops::deform::MYOPS_ISA {

using namespace ::myops::MYOPS_ISA;

// Columns of one panel: what a register block of the product is wide.
template <class A>
inline constexpr int64_t kPanel = 2 * kLanes<A>;
// Rows of a register block: with two vectors of columns each, and two factors, they fit.
inline constexpr int64_t kBlockRows = MYOPS_REGISTERS == 32 ? 12 : MYOPS_VECTOR_BYTES == 16 ? 4 : 6;

inline constexpr int64_t panels(int64_t columns, int64_t width) {
  return (columns + width - 1) / width;
}

// Positions of a line that are used: `count` runs of `length`, `step` apart.
struct Runs {
  int64_t count, length, step;
};

// Rows x kPanel sums: out[i][:] += sum over r of left[i][r] * right[r][:].
template <class A, int Rows>
inline void multiply_block(const Runs& depth, const A* left, int64_t left_row, const A* right,
                           int64_t right_row, A* out, int64_t out_row) {
  constexpr int64_t L = kLanes<A>;
  Vector<A> sums[Rows][2];
#pragma GCC unroll 12
  for (int i = 0; i < Rows; ++i) {
    sums[i][0] = load(out + i * out_row);
    sums[i][1] = load(out + i * out_row + L);
  }
  for (int64_t run = 0; run < depth.count; ++run, left += depth.step) {
    for (int64_t r = 0; r < depth.length; ++r, right += right_row) {
      const Vector<A> first = load(right), second = load(right + L);
#pragma GCC unroll 12
      for (int i = 0; i < Rows; ++i) {
        const Vector<A> factor = broadcast(left[i * left_row + r]);
        sums[i][0] = fma(factor, first, sums[i][0]);
        sums[i][1] = fma(factor, second, sums[i][1]);
      }
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < Rows; ++i) {
    store(out + i * out_row, sums[i][0]);
    store(out + i * out_row + L, sums[i][1]);
  }
}

// The same for `rows` <= Rows of them.
template <class A, int Rows>
inline void multiply_rest(int64_t rows, const Runs& depth, const A* left, int64_t left_row,
                          const A* right, int64_t right_row, A* out, int64_t out_row) {
  if constexpr (Rows > 0) {
    if (rows == Rows) {
      multiply_block<A, Rows>(depth, left, left_row, right, right_row, out, out_row);
    } else {
      multiply_rest<A, Rows - 1>(rows, depth, left, left_row, right, right_row, out, out_row);
    }
  }
}

template <class A>
void multiply_rows(int64_t rows, const Runs& depth, const A* left, int64_t left_row, const A* right,
                   int64_t right_row, A* out, int64_t out_row) {
  for (; rows >= kBlockRows; rows -= kBlockRows) {
    multiply_block<A, kBlockRows>(depth, left, left_row, right, right_row, out, out_row);
    left += kBlockRows * left_row;
    out += kBlockRows * out_row;
  }
  multiply_rest<A, kBlockRows - 1>(rows, depth, left, left_row, right, right_row, out, out_row);
}

// out[i][j] += sum over r of left[i][r] * right[r][j] for i < rows, j < columns.
//
// r runs through `depth` in left. In right it advances by `right_row`, and panel after panel
// (kPanel columns) begins `right_panel` later; right is readable to the end of its last panel.
template <class A>
void multiply(int64_t rows, int64_t columns, const Runs& depth, const A* left, int64_t left_row,
              const A* right, int64_t right_row, int64_t right_panel, A* out, int64_t out_row) {
  constexpr int64_t width = kPanel<A>;
  for (; columns >= width; columns -= width, right += right_panel, out += width) {
    multiply_rows(rows, depth, left, left_row, right, right_row, out, out_row);
  }
  if (columns == 0) return;
  A edge[kBlockRows * width] = {};  // the last columns: the block would write past them
  for (int64_t row = 0; row < rows; row += kBlockRows) {
    const int64_t count = std::min(kBlockRows, rows - row);
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(out + (row + i) * out_row, columns, edge + i * width);
    }
    multiply_rows(count, depth, left + row * left_row, left_row, right, right_row, edge, width);
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(edge + i * width, columns, out + (row + i) * out_row);
    }
  }
}

}  // namespace myops::deform::MYOPS_ISA
