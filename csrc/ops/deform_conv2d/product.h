// The matrix product of this directory. The order of every sum depends on shapes only.
#pragma once

#include "myops/simd_bfloat16.h"
#include "myops/simd_integers.h"

namespace myops::deform::MYOPS_ISA {

using namespace ::myops::MYOPS_ISA;

// Columns of a panel: the width of a register block.
template <class A>
inline constexpr int64_t kPanel = 2 * kLanes<A>;
// Half a vector, but at least 16 bytes; results have rows of a multiple of it.
template <class A>
inline constexpr int64_t kHalf = kLanes<A> > kQuad<A> ? kLanes<A> / 2 : kLanes<A>;
// Rows of a register block: the sums (two vectors for each row) and two factors fit the registers.
// With AVX-512 twelve rows would fit too, but took 1 to 4% longer because more blocks were
// incomplete.
inline constexpr int64_t kBlockRows = MYOPS_VECTOR_BYTES == 64   ? 8
                                      : MYOPS_REGISTERS == 32    ? 12
                                      : MYOPS_VECTOR_BYTES == 16 ? 4
                                                                 : 6;

inline constexpr int64_t panels(int64_t columns, int64_t width) {
  return (columns + width - 1) / width;
}

// Indices of a line that are used: `count` runs of `length`, `step` apart.
struct Runs {
  int64_t count, length, step;
};

// A view of a matrix: element r of row i is at data[i * row + r * step].
template <class A>
struct MatrixView {
  const A* data;
  int64_t row, step = 1;
};

// sum + a b, lane by lane. Factors are numbers of the sums' type, or lanes of 32 bits with several
// narrow numbers each, of which a dot product is added.
template <class Factors, class Sums>
MYOPS_INLINE Sums add_product(const Factors& a, const Factors& b, const Sums& sum) {
  if constexpr (std::is_same_v<Factors, Lanes<int32_t, sizeof(Factors) / sizeof(int32_t)>>) {
    return add_dot(a, b, sum);
  } else {
    return fma(a, b, sum);
  }
}

// Whether a product adds to its result or overwrites it; or, of weighted_sums(), overwrites it with
// a sum that begins with a number of each row.
enum class Result : uint8_t { Add, Overwrite, Begin };

// kRows x kVectors sums of vectors V: out[i][:] (+)= sum over r of left[i][r] * right[r][:].
template <Result kResult, class V, int kRows, int kVectors, class F, class A>
inline void multiply_block(const Runs& depth, const MatrixView<F>& left, const F* right,
                           int64_t right_row, A* out, int64_t out_row) {
  static_assert(sizeof(F) == sizeof(A));
  constexpr int64_t L = sizeof(V) / sizeof(A);
  using Factors = Lanes<F, L>;
  V sums[kRows][kVectors];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      sums[i][v] = kResult == Result::Add ? load_as<V>(out + i * out_row + v * L) : V{};
    }
  }
  const F* from = left.data;
  for (int64_t run = 0; run < depth.count; ++run, from += depth.step) {
    const F* const end = right + depth.length * right_row;
    for (const F* at = from; right != end; at += left.step, right += right_row) {
      Factors factors[kVectors];
      for (int v = 0; v < kVectors; ++v) factors[v] = load_as<Factors>(right + v * L);
#pragma GCC unroll 12
      for (int i = 0; i < kRows; ++i) {
        const Factors factor = at[i * left.row] - Factors{};
        for (int v = 0; v < kVectors; ++v) sums[i][v] = add_product(factor, factors[v], sums[i][v]);
      }
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) store(out + i * out_row + v * L, sums[i][v]);
  }
}

// The same for `rows` <= kRows of them.
template <Result kResult, class V, int kRows, int kVectors, class F, class A>
inline void multiply_rest(int64_t rows, const Runs& depth, const MatrixView<F>& left,
                          const F* right, int64_t right_row, A* out, int64_t out_row) {
  if constexpr (kRows > 0) {
    if (rows == kRows) {
      multiply_block<kResult, V, kRows, kVectors>(depth, left, right, right_row, out, out_row);
    } else {
      multiply_rest<kResult, V, kRows - 1, kVectors>(rows, depth, left, right, right_row, out,
                                                     out_row);
    }
  }
}

template <Result kResult, class V, int kVectors, class F, class A>
void multiply_rows(int64_t rows, const Runs& depth, MatrixView<F> left, const F* right,
                   int64_t right_row, A* out, int64_t out_row) {
  for (; rows >= kBlockRows; rows -= kBlockRows) {
    multiply_block<kResult, V, kBlockRows, kVectors>(depth, left, right, right_row, out, out_row);
    left.data += kBlockRows * left.row;
    out += kBlockRows * out_row;
  }
  multiply_rest<kResult, V, kBlockRows - 1, kVectors>(rows, depth, left, right, right_row, out,
                                                      out_row);
}

// out[i][j] (+)= sum over r of left[i][r] * right[r][j] for i < rows, j < columns.
//
// In `left` the index r follows `depth`. In `right` it advances by `right_row`, and each panel
// (kPanel columns) begins `right_panel` behind the previous one; `right` is readable to the end of
// its last panel.
template <Result kResult = Result::Add, class A, class F = A>
void multiply(int64_t rows, int64_t columns, const Runs& depth, const MatrixView<F>& left,
              const F* right, int64_t right_row, int64_t right_panel, A* out, int64_t out_row) {
  constexpr int64_t width = kPanel<A>, L = kLanes<A>;
  for (; columns >= width; columns -= width, right += right_panel, out += width) {
    multiply_rows<kResult, Vector<A>, 2>(rows, depth, left, right, right_row, out, out_row);
  }
  if (columns >= L) {
    multiply_rows<kResult, Vector<A>, 1>(rows, depth, left, right, right_row, out, out_row);
    columns -= L;
    right += L;
    out += L;
  }
  if (columns == 0) return;
  using Half = Lanes<A, kHalf<A>>;  // takes half the time where vectors are long
  if (columns == kHalf<A>) {
    return multiply_rows<kResult, Half, 1>(rows, depth, left, right, right_row, out, out_row);
  }
  A edge[kBlockRows * L] = {};  // for the last columns, because a block would write past them
  for (int64_t row = 0; row < rows; row += kBlockRows) {
    const int64_t count = std::min(kBlockRows, rows - row);
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(out + (row + i) * out_row, columns, edge + i * L);
    }
    const MatrixView<F> part{left.data + row * left.row, left.row, left.step};
    if (columns < kHalf<A>) {
      multiply_rows<kResult, Half, 1>(count, depth, part, right, right_row, edge, L);
    } else {
      multiply_rows<kResult, Vector<A>, 1>(count, depth, part, right, right_row, edge, L);
    }
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(edge + i * L, columns, out + (row + i) * out_row);
    }
  }
}

}  // namespace myops::deform::MYOPS_ISA
