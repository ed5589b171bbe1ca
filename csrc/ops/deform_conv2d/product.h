// The one matrix product of this directory. Every sum has an order that shapes alone decide.
#pragma once

#include "myops/simd.h"

namespace myops::deform::MYOPS_ISA {

using namespace ::myops::MYOPS_ISA;

// Columns of one panel: what a register block of the product is wide.
template <class A>
inline constexpr int64_t kPanel = 2 * kLanes<A>;
// MatrixView of a register block: with two vectors of columns each, and two factors, they fit. With
// AVX-512 twelve would, too, and took 1 to 4% longer: more pixels were left over.
inline constexpr int64_t kBlockRows = MYOPS_VECTOR_BYTES == 64   ? 8
                                      : MYOPS_REGISTERS == 32    ? 12
                                      : MYOPS_VECTOR_BYTES == 16 ? 4
                                                                 : 6;

inline constexpr int64_t panels(int64_t columns, int64_t width) {
  return (columns + width - 1) / width;
}

// Positions of a line that are used: `count` runs of `length`, `step` apart.
struct Runs {
  int64_t count, length, step;
};

// MatrixView of a matrix: element r of row i is at data[i * row + r * step].
template <class A>
struct MatrixView {
  const A* data;
  int64_t row, step = 1;
};

// What a product does with what it finds in its result.
enum class Result : uint8_t { Add, Overwrite };

// kRows x kVectors sums: out[i][:] (+)= sum over r of left[i][r] * right[r][:].
template <Result kResult, class A, int kRows, int kVectors>
inline void multiply_block(const Runs& depth, const MatrixView<A>& left, const A* right,
                           int64_t right_row, A* out, int64_t out_row) {
  constexpr int64_t L = kLanes<A>;
  Vector<A> sums[kRows][kVectors];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      sums[i][v] = kResult == Result::Add ? load(out + i * out_row + v * L) : Vector<A>{};
    }
  }
  const A* from = left.data;
  for (int64_t run = 0; run < depth.count; ++run, from += depth.step) {
    const A* const end = right + depth.length * right_row;
    for (const A* at = from; right != end; at += left.step, right += right_row) {
      Vector<A> factors[kVectors];
      for (int v = 0; v < kVectors; ++v) factors[v] = load(right + v * L);
#pragma GCC unroll 12
      for (int i = 0; i < kRows; ++i) {
        const Vector<A> factor = broadcast(at[i * left.row]);
        for (int v = 0; v < kVectors; ++v) sums[i][v] = fma(factor, factors[v], sums[i][v]);
      }
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) store(out + i * out_row + v * L, sums[i][v]);
  }
}

// The same for `rows` <= kRows of them.
template <Result kResult, class A, int kRows, int kVectors>
inline void multiply_rest(int64_t rows, const Runs& depth, const MatrixView<A>& left,
                          const A* right, int64_t right_row, A* out, int64_t out_row) {
  if constexpr (kRows > 0) {
    if (rows == kRows) {
      multiply_block<kResult, A, kRows, kVectors>(depth, left, right, right_row, out, out_row);
    } else {
      multiply_rest<kResult, A, kRows - 1, kVectors>(rows, depth, left, right, right_row, out,
                                                     out_row);
    }
  }
}

template <Result kResult, class A, int kVectors>
void multiply_rows(int64_t rows, const Runs& depth, MatrixView<A> left, const A* right,
                   int64_t right_row, A* out, int64_t out_row) {
  for (; rows >= kBlockRows; rows -= kBlockRows) {
    multiply_block<kResult, A, kBlockRows, kVectors>(depth, left, right, right_row, out, out_row);
    left.data += kBlockRows * left.row;
    out += kBlockRows * out_row;
  }
  multiply_rest<kResult, A, kBlockRows - 1, kVectors>(rows, depth, left, right, right_row, out,
                                                      out_row);
}

// out[i][j] (+)= sum over r of left[i][r] * right[r][j] for i < rows, j < columns.
//
// r runs through `depth` in left. In right it advances by `right_row`, and panel after panel
// (kPanel columns) begins `right_panel` later; right is readable to the end of its last panel.
template <Result kResult = Result::Add, class A>
void multiply(int64_t rows, int64_t columns, const Runs& depth, const MatrixView<A>& left,
              const A* right, int64_t right_row, int64_t right_panel, A* out, int64_t out_row) {
  constexpr int64_t width = kPanel<A>, L = kLanes<A>;
  for (; columns >= width; columns -= width, right += right_panel, out += width) {
    multiply_rows<kResult, A, 2>(rows, depth, left, right, right_row, out, out_row);
  }
  if (columns >= L) {
    multiply_rows<kResult, A, 1>(rows, depth, left, right, right_row, out, out_row);
    columns -= L;
    right += L;
    out += L;
  }
  if (columns == 0) return;
  A edge[kBlockRows * L] = {};  // the last columns: the block would write past them
  for (int64_t row = 0; row < rows; row += kBlockRows) {
    const int64_t count = std::min(kBlockRows, rows - row);
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(out + (row + i) * out_row, columns, edge + i * L);
    }
    const MatrixView<A> part{left.data + row * left.row, left.row, left.step};
    multiply_rows<kResult, A, 1>(count, depth, part, right, right_row, edge, L);
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(edge + i * L, columns, out + (row + i) * out_row);
    }
  }
}

}  // namespace myops::deform::MYOPS_ISA
