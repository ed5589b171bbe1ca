// Products whose vectors run over pixels: the rows of both factors are planes of a tile. Nothing is
// padded but the last vector of a row, however few rows there are.
#pragma once

#include "transpose.h"

namespace myops::deform::MYOPS_ISA {

// Rows that are `row` elements apart.
template <class P>
struct Rows {
  P* data;
  int64_t row;

  P* at(int64_t r) const { return data + r * row; }
  void skip(int64_t elements) { data += elements; }
};

// Rows anywhere.
template <class P>
struct RowList {
  P* const* rows;
  int64_t first = 0;  // element of each

  P* at(int64_t r) const { return rows[r] + first; }
  void skip(int64_t elements) { first += elements; }
};

inline constexpr int kSumRows = MYOPS_REGISTERS == 32 ? 6 : 4;  // of a block of weighted_sums()
inline constexpr int kSumVectors = MYOPS_REGISTERS == 32 ? 4 : 3;
inline constexpr int kDotRows = MYOPS_REGISTERS == 32 ? 6 : 3;  // of a block of dot_products()

// The vector at `from`, or its first `count` elements and zeros. kWhole: count is kLanes.
template <bool kWhole, class A>
MYOPS_INLINE Vector<A> load_some(const A* from, int64_t count) {
  if constexpr (kWhole) return load(from);
  return load_part<A>(from, count);
}

// The result of weighted_sums(), and with Result::Begin the number of each of its rows.
template <class A>
struct SumRows {
  Rows<A> out;
  const A* begin = nullptr;
  bool prefetches = false;  // `out`, before the sums are computed
};

template <Result kResult, int kRows, int kVectors, bool kWhole, class Weights, class A>
MYOPS_INLINE void weighted_block(int64_t depth, const Weights& weights, Rows<const A> planes,
                                 const SumRows<A>& to, int64_t count) {
  constexpr int64_t L = kLanes<A>;
  if constexpr (kResult == Result::Begin) {
    for (int i = 0; i < kRows && to.prefetches; ++i) {
      for (int v = 0; v < kVectors; ++v) __builtin_prefetch(to.out.at(i) + v * L, 1);
    }
  }
  Vector<A> sums[kRows][kVectors] = {};
  if constexpr (kResult != Result::Overwrite) {
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sums[i][v] = kResult == Result::Begin ? broadcast(to.begin[i]) : load(to.out.at(i) + v * L);
      }
    }
  }
  for (int64_t r = 0; r < depth; ++r, planes.data += planes.row) {
    Vector<A> values[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) values[v] = load_some<kWhole>(planes.data + v * L, count);
    const A* const factors = weights.at(r);
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const Vector<A> weight = broadcast(factors[i]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[i][v] = fma(weight, values[v], sums[i][v]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) store(to.out.at(i) + v * L, sums[i][v]);
  }
}
template <Result kResult, int kRows, int kVectors, bool kWhole, class Weights, class A>
inline void weighted_rows(int64_t rows, int64_t depth, Weights weights, const Rows<const A>& planes,
                          SumRows<A> to, int64_t count) {
  for (; rows >= kRows; rows -= kRows) {
    weighted_block<kResult, kRows, kVectors, kWhole>(depth, weights, planes, to, count);
    weights.skip(kRows);
    to.out.skip(kRows * to.out.row);
    if constexpr (kResult == Result::Begin) to.begin += kRows;
  }
  if constexpr (kRows > 1) {
    if (rows > 0) {
      weighted_rows<kResult, kRows - 1, kVectors, kWhole>(rows, depth, weights, planes, to, count);
    }
  }
}

// out[i][p] (+)= sum over r < depth of weights.at(r)[i] * planes[r][p] for i < rows and p < pixels.
// Whole vectors of `out` are written.
template <Result kResult, class Weights, class A>
void weighted_sums(int64_t rows, int64_t depth, const Weights& weights, Rows<const A> planes,
                   SumRows<A> to, int64_t pixels) {
  constexpr int64_t L = kLanes<A>, kStep = kSumVectors * L;
  const auto advance = [&](int64_t by) {
    planes.skip(by);
    to.out.skip(by);
  };
  for (; pixels >= kStep; pixels -= kStep, advance(kStep)) {
    weighted_rows<kResult, kSumRows, kSumVectors, true>(rows, depth, weights, planes, to, L);
  }
  if (pixels >= 2 * L) {
    weighted_rows<kResult, kSumRows, 2, true>(rows, depth, weights, planes, to, L);
    pixels -= 2 * L;
    advance(2 * L);
  }
  for (; pixels >= L; pixels -= L, advance(L)) {
    weighted_rows<kResult, kSumRows, 1, true>(rows, depth, weights, planes, to, L);
  }
  if (pixels > 0) {
    weighted_rows<kResult, kSumRows, 1, false>(rows, depth, weights, planes, to, pixels);
  }
}

// The products of kLeft rows with `wanted` <= kRight others; a missing one is replaced by the
// first.
template <int kLeft, int kRight, class A>
MYOPS_INLINE void dot_block(const Rows<const A>& left, const Rows<const A>& right, int wanted,
                            int64_t pixels, const Rows<A>& out) {
  constexpr int64_t L = kLanes<A>;
  Vector<A> sums[kLeft][kRight] = {};
  const A* at[kRight];
  for (int j = 0; j < kRight; ++j) at[j] = right.data + (j < wanted ? j : 0) * right.row;
  // The shorter side is loaded first, so that sums and factors fit the registers.
  const auto add = [&](auto whole, int64_t p, int64_t count) MYOPS_INLINED {
    constexpr bool kLeftFirst = kLeft < kRight;
    constexpr int kFirst = kLeftFirst ? kLeft : kRight, kSecond = kLeftFirst ? kRight : kLeft;
    const auto value = [&](bool of_left, int i) MYOPS_INLINED {
      return load_some<whole>(of_left ? left.data + i * left.row + p : at[i] + p, count);
    };
    Vector<A> values[kFirst];
#pragma GCC unroll 4
    for (int i = 0; i < kFirst; ++i) values[i] = value(kLeftFirst, i);
#pragma GCC unroll 6
    for (int j = 0; j < kSecond; ++j) {
      const Vector<A> other = value(!kLeftFirst, j);
#pragma GCC unroll 4
      for (int i = 0; i < kFirst; ++i) {
        Vector<A>& sum = kLeftFirst ? sums[i][j] : sums[j][i];
        sum = fma(values[i], other, sum);
      }
    }
  };
  int64_t p = 0;
  for (; p + L <= pixels; p += L) add(std::true_type(), p, L);
  if (p < pixels) add(std::false_type(), p, pixels - p);
  if constexpr (kRight == 4) {
    for (int i = 0; i < kLeft; ++i) {
      const Lanes<A, 4> totals = myops::MYOPS_ISA::sums<A>(sums[i]);
      if (wanted == 4) {
        store(out.data + i * out.row, totals);
        continue;
      }
      for (int j = 0; j < wanted; ++j) out.data[i * out.row + j] = totals[j];
    }
  } else {
    for (int i = 0; i < kLeft; ++i) out.data[i * out.row] = sum<A>(sums[i][0]);
  }
}
template <int kLeft, class A>
inline void dot_rows(const Rows<const A>& left, Rows<const A> right, int64_t count, int64_t pixels,
                     Rows<A> out) {
  for (; count > 1; count -= 4, right.data += 4 * right.row, out.data += 4) {
    const int wanted = static_cast<int>(std::min<int64_t>(count, 4));
    dot_block<kLeft, 4>(left, right, wanted, pixels, out);
  }
  if (count == 1) dot_block<kLeft, 1>(left, right, 1, pixels, out);
}

// out[i][j] = sum over p < pixels of left[i][p] * right[j][p] for i < rows and j < count. What is
// read again and again, for each block of the others, are the rows of the side with the larger
// blocks.
template <class A>
void dot_products(int64_t rows, int64_t count, const Rows<const A>& left, Rows<const A> right,
                  int64_t pixels, Rows<A> out) {
  const int64_t most = kDotRows < 4 ? 4 : count;
  for (; count > 0; count -= most, right.data += most * right.row, out.data += most) {
    const int64_t some = std::min(count, most);
    const auto left_at = [&](int64_t row) {
      return Rows<const A>{left.data + row * left.row, left.row};
    };
    const auto out_at = [&](int64_t row) { return Rows<A>{out.data + row * out.row, out.row}; };
    int64_t row = 0;
    for (; row + kDotRows <= rows; row += kDotRows) {
      dot_rows<kDotRows>(left_at(row), right, some, pixels, out_at(row));
    }
    for (; row < rows; ++row) dot_rows<1>(left_at(row), right, some, pixels, out_at(row));
  }
}

}  // namespace myops::deform::MYOPS_ISA
