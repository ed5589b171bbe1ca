// Where a tile samples X, and with which weights.
//
// Forward. Tap k = (i, j) of output pixel p = (u, v) samples at
//   y = u * stride_y - pad_top + i * dilation_y + offset[2k]     (x alike, with offset[2k + 1]).
// With y0 = floor(y), fy = y - y0, x0 and fx alike, the four corners (y0 or y0 + 1, x0 or x0 + 1)
// and X = 0 outside the image:
//   S(c, k, p) = sum_j w_j X_j(c),  w = ((1-fy)(1-fx), (1-fy)fx, fy(1-fx), fy fx)
//   A(c, k, p) = m S(c, k, p)                                    (m: the mask, or 1)
//   Y(o, p)    = B(o) + sum_ck W(o, c, k) A(c, k, p)
// A position that is not finite, or has y <= -1, y >= H, x <= -1 or x >= W, samples 0 whatever
// X holds, and all its derivatives are 0. The mask multiplies that 0 as any other sample, so a
// mask that is not finite shows there as NaN. At integer positions the derivative is the one
// from the right: that of the cell which floor() selects.
//
// Backward, with G = dL/dY and T(c, k, p) = sum_o W(o, c, k) G(o, p), F_j = sum_c T X_j(c) over
// the channels that share the offset, wy_j = dw_j/dy, wx_j = dw_j/dx:
//   dL/dW = sum_p G A,   dL/dX_j = m w_j T,   dL/dm = sum_j w_j F_j
//   dL/dy = m sum_j wy_j F_j,   dL/dx = m sum_j wx_j F_j
//
// Double backward. Let (X', W', y', x', m') be the gradients that arrive at dL/d(X, W, y, x, m).
// Their inner product with it is <G, dY>, dY the derivative of Y in that direction:
//   A' = sum_j a_j X'_j + b_j X_j,   a_j = m w_j,   b_j = m' w_j + m (y' wy_j + x' wx_j)
//   <G, dY> = sum G (W' A + W A') = sum_ckp T' A + T A',   T' = sum_o W' G
// and its derivatives are, with F_j = sum_c (T' X_j + T X'_j), H_j = sum_c T X_j and
// d2w_j/dydx = wxy = (1, -1, -1, 1), the other second derivatives being 0:
//   d/dG = W' A + W A',   d/dW = sum_p G A',   d/dX_j = a_j T' + b_j T
//   d/dm = sum_j w_j F_j + (y' wy_j + x' wx_j) H_j
//   d/dy = sum_j m wy_j F_j + (m' wy_j + m x' wxy_j) H_j     (d/dx with x and y swapped)
// The backward is the case T' = T, T = 0 of it, so both are the same code.
#pragma once

#include "blocking.h"

namespace myops::deform::MYOPS_ISA {

// The corner (y, x) at the top left; bit j of `inside` is set when corner j lies in the image.
struct Cell {
  int32_t y, x;
  uint32_t inside;
};

template <class A>
struct Weights {
  A at[4];
};

template <class A>
struct Point {  // fractions and mask, or the direction (y', x', m')
  A y, x, mask;
};

template <class A>
inline Weights<A> value_weights(const Point<A>& f) {
  return {{(1 - f.y) * (1 - f.x), (1 - f.y) * f.x, f.y * (1 - f.x), f.y * f.x}};
}
template <class A>
inline Weights<A> y_weights(const Point<A>& f) {
  return {{-(1 - f.x), -f.x, 1 - f.x, f.x}};
}
template <class A>
inline Weights<A> x_weights(const Point<A>& f) {
  return {{-(1 - f.y), 1 - f.y, -f.y, f.y}};
}

// What the positions depend on; `shift` and `mask_shift` are y', x' and m'.
template <class T>
struct Positions {
  Field<const T> offset, mask, shift, mask_shift;
  bool shifted() const { return shift || mask_shift; }
};

// The samples of a tile for taps [first, last) of one offset group: entry (k - first) * pixels + p.
template <class T>
class Taps {
 public:
  using A = Accumulate<T>;

  // `gradient`: points() and shifts() are wanted too.
  Taps(const KernelContext& context, const Positions<T>& positions, int64_t entries, bool gradient)
      : positions_(positions),
        cells_(context, entries),
        values_(context, entries),
        points_(context, gradient || positions.shifted() ? entries : 0),
        shifts_(context, positions.shifted() ? entries : 0),
        changes_(context, positions.shifted() ? entries : 0),
        gradient_(gradient || positions.shifted()) {}

  void place(const Problem& problem, const Tile& tile, int64_t offset_group, int64_t first,
             int64_t last) {
    int64_t entry = 0;
    for (int64_t k = first; k < last; ++k) {
      for (int64_t row = 0; row < tile.rows; ++row, entry += tile.columns) {
        place_row(problem, tile, offset_group, k, row, entry);
        if (positions_.shifted()) shift_row(problem, tile, offset_group, k, row, entry);
      }
    }
  }

  const Cell* cells() const { return cells_.get(); }
  const Weights<A>* values() const { return values_.get(); }    // a_j
  const Weights<A>* changes() const { return changes_.get(); }  // b_j
  const Point<A>* points() const { return points_.get(); }      // fractions, m
  const Point<A>* shifts() const { return shifts_.get(); }      // y', x', m'
  bool shifted() const { return positions_.shifted(); }

 private:
  void place_row(const Problem& problem, const Tile& tile, int64_t offset_group, int64_t k,
                 int64_t row, int64_t entry);
  void shift_row(const Problem& problem, const Tile& tile, int64_t offset_group, int64_t k,
                 int64_t row, int64_t entry);
  void put(const Problem& problem, int64_t entry, A y, A x, A mask);

  Positions<T> positions_;
  Buffer<Cell> cells_;
  Buffer<Weights<A>> values_;
  Buffer<Point<A>> points_, shifts_;
  Buffer<Weights<A>> changes_;
  bool gradient_;
};

// Comparisons are made before the conversion to integers, which is undefined for a number out of
// their range; NaN fails them.
template <class T>
inline void Taps<T>::put(const Problem& problem, int64_t entry, A y, A x, A mask) {
  const bool hit =
      y > -1 && y < static_cast<A>(problem.height) && x > -1 && x < static_cast<A>(problem.width);
  y = hit ? y : 0;
  x = hit ? x : 0;
  int32_t top = static_cast<int32_t>(y), left = static_cast<int32_t>(x);
  top -= static_cast<A>(top) > y;  // truncation rounded (-1, 0) up
  left -= static_cast<A>(left) > x;
  const uint32_t up = top >= 0 && top < problem.height, down = top + 1 < problem.height;
  const uint32_t before = left >= 0 && left < problem.width, after = left + 1 < problem.width;
  const uint32_t inside =
      (up & before) | (up & after) << 1 | (down & before) << 2 | (down & after) << 3;
  cells_.get()[entry] = {top, left, hit ? inside : 0};
  const Point<A> point{y - static_cast<A>(top), x - static_cast<A>(left), mask};
  Weights<A> weights = value_weights(point);
  for (A& weight : weights.at) weight *= mask;
  values_.get()[entry] = weights;
  if (gradient_) points_.get()[entry] = point;
}

template <class T>
void Taps<T>::place_row(const Problem& problem, const Tile& tile, int64_t offset_group, int64_t k,
                        int64_t row, int64_t entry) {
  const Field<const T>&offset = positions_.offset, &mask = positions_.mask;
  const int64_t v = tile.top + row, plane = offset_group * problem.taps + k;
  const int64_t i = k / problem.kernel_width, j = k % problem.kernel_width;
  const T* offset_y = offset.at(tile.image, 2 * plane, v, tile.left);
  const T* offset_x = offset_y + offset.step[1];
  const T* masks = mask ? mask.at(tile.image, plane, v, tile.left) : nullptr;
  const A y = static_cast<A>(v * problem.stride_y - problem.pad_top + i * problem.dilation_y);
  for (int64_t c = 0; c < tile.columns; ++c) {
    const A x = static_cast<A>((tile.left + c) * problem.stride_x - problem.pad_left +
                               j * problem.dilation_x);
    put(problem, entry + c, y + static_cast<A>(offset_y[c * offset.step[3]]),
        x + static_cast<A>(offset_x[c * offset.step[3]]),
        masks ? static_cast<A>(masks[c * mask.step[3]]) : A{1});
  }
}

template <class T>
void Taps<T>::shift_row(const Problem& problem, const Tile& tile, int64_t offset_group, int64_t k,
                        int64_t row, int64_t entry) {
  const Field<const T>&shift = positions_.shift, &mask_shift = positions_.mask_shift;
  const int64_t v = tile.top + row, plane = offset_group * problem.taps + k;
  for (int64_t c = 0; c < tile.columns; ++c, ++entry) {
    const int64_t u = tile.left + c;
    Point<A> move{0, 0, 0};
    if (shift) {
      move.y = static_cast<A>(*shift.at(tile.image, 2 * plane, v, u));
      move.x = static_cast<A>(*shift.at(tile.image, 2 * plane + 1, v, u));
    }
    if (mask_shift) move.mask = static_cast<A>(*mask_shift.at(tile.image, plane, v, u));
    shifts_.get()[entry] = move;
    const Point<A>& point = points_.get()[entry];
    const Weights<A> w = value_weights(point), wy = y_weights(point), wx = x_weights(point);
    for (int corner = 0; corner < 4; ++corner) {
      changes_.get()[entry].at[corner] =
          move.mask * w.at[corner] + point.mask * (move.y * wy.at[corner] + move.x * wx.at[corner]);
    }
  }
}

}  // namespace myops::deform::MYOPS_ISA
