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
// Double backward. Let (X', W', y', x', m') be the gradients with respect to dL/d(X, W, y, x, m).
// Their inner product with dL/d(X, W, y, x, m) is <G, dY>, dY the derivative of Y in their
// direction:
//   A' = sum_j a_j X'_j + b_j X_j,   a_j = m w_j,   b_j = m' w_j + m (y' wy_j + x' wx_j)
//   <G, dY> = sum G (W' A + W A') = sum_ckp T' A + T A',   T' = sum_o W' G
// and its derivatives are, with F_j = sum_c (T' X_j + T X'_j), H_j = sum_c T X_j and
// d2w_j/dydx = wxy = (1, -1, -1, 1), the other second derivatives being 0:
//   d/dG = W' A + W A',   d/dW = sum_p G A',   d/dX_j = a_j T' + b_j T
//   d/dm = sum_j w_j F_j + (y' wy_j + x' wx_j) H_j
//   d/dy = sum_j m wy_j F_j + (m' wy_j + m x' wxy_j) H_j     (d/dx with x and y swapped)
// The backward pass is the special case T' = T, T = 0, so both use the same code.
#pragma once

#include "cells.h"
#include "lines.h"

namespace myops::deform::MYOPS_ISA {

// The inputs that positions depend on; `shift` and `mask_shift` are y', x' and m'.
template <class T>
struct Positions {
  StridedView<const T> offset, mask, shift, mask_shift;
  bool shifted() const { return shift || mask_shift; }
};

template <class T>
struct PositionView {
  using V = Vector<Accumulate<T>>;
  LineView<T> offset, mask, shift, mask_shift;

  bool even_rows(const Tile& tile) const {
    return offset.even_rows(tile) && mask.even_rows(tile) && shift.even_rows(tile) &&
           mask_shift.even_rows(tile);
  }
  void prefetch(int64_t tap, int64_t row, int64_t count) const {
    offset.prefetch(2 * tap, row, count);
    offset.prefetch(2 * tap + 1, row, count);
    if (mask) mask.prefetch(tap, row, count);
  }
  // Offset and mask of kLanes pixels of a row, `count` of which are valid.
  Point<V> point(int64_t tap, int64_t row, int64_t pixel, int64_t count) const {
    return {offset.at(2 * tap, row, pixel, count), offset.at(2 * tap + 1, row, pixel, count),
            mask ? mask.at(tap, row, pixel, count) : V{} + 1};
  }
  // y', x' and m' of these.
  Point<V> move(int64_t tap, int64_t row, int64_t pixel, int64_t count) const {
    Point<V> point{};
    if (shift) point.y = shift.at(2 * tap, row, pixel, count);
    if (shift) point.x = shift.at(2 * tap + 1, row, pixel, count);
    if (mask_shift) point.mask = mask_shift.at(tap, row, pixel, count);
    return point;
  }
};

template <class T>
class PositionLines {
 public:
  PositionLines(const KernelContext& context, const ConvShape& conv, const Positions<T>& of,
                int64_t taps, int64_t pixels)
      : groups_(groups_at_a_time(conv, of, taps, pixels)),
        offset_(context, of.offset, 2 * groups_ * taps, pixels),
        mask_(context, of.mask, groups_ * taps, pixels),
        shift_(context, of.shift, 2 * groups_ * taps, pixels),
        mask_shift_(context, of.mask_shift, groups_ * taps, pixels) {}

  PositionView<T> place(const ConvShape& conv, const Tile& tile, int64_t offset_group,
                        const Range& taps) {
    const int64_t first = offset_group * conv.taps + taps.first, end = first + taps.count();
    const int64_t groups = std::min(groups_, conv.offset_groups - offset_group);
    const int64_t last = groups_ == 1 ? end : first + groups * conv.taps;
    const Range twice{2 * first, 2 * end}, once{first, end};
    return {offset_.place(tile, twice, 2 * last), mask_.place(tile, once, last),
            shift_.place(tile, twice, 2 * last), mask_shift_.place(tile, once, last)};
  }

 private:
  static int64_t groups_at_a_time(const ConvShape& conv, const Positions<T>& of, int64_t taps,
                                  int64_t pixels) {
    if (taps < conv.taps || conv.channels_per_offset() > kFewChannels) return 1;
    const int64_t each = (of.shifted() ? 6 : 3) * taps * std::max<int64_t>(pixels, 1);
    return std::clamp<int64_t>(kTransposed<Accumulate<T>> / each, 1, conv.offset_groups);
  }

  int64_t groups_;  // whose channels are transposed at a time
  Lines<T> offset_, mask_, shift_, mask_shift_;
};

// The sampling positions and weights of a tile. Each quantity is stored in a separate plane, so
// that it is computed for kLanes pixels at once: tap k, counted from the first, of pixel p is entry
// k * stride() + p.
template <class T>
class Taps {
 public:
  using A = Accumulate<T>;

  // `gradient`: point() will be called too.
  Taps(const KernelContext& context, const ConvShape& conv, const Positions<T>& positions,
       int64_t taps, int64_t pixels, bool gradient)
      : lines_(context, conv, positions, taps, pixels),
        shifted_(positions.shifted()),
        height_(static_cast<int32_t>(conv.height)),
        width_(static_cast<int32_t>(conv.width)),
        stride_(panels(pixels, kLanes<A>) * kLanes<A> + kLanes<A>),
        plane_(taps * stride_),
        cells_(context, 3 * plane_),
        bases_(context, 2 * stride_),
        values_(context, 4 * plane_),
        points_(context, gradient || positions.shifted() ? 3 * plane_ : 0),
        shifts_(context, positions.shifted() ? 3 * plane_ : 0),
        changes_(context, positions.shifted() ? 4 * plane_ : 0),
        gradient_(gradient || positions.shifted()) {
    bases_.zero(2 * stride_);
    values_.zero(4 * plane_);
    if (gradient_) points_.zero(3 * plane_);
    if (shifted_) shifts_.zero(3 * plane_), changes_.zero(4 * plane_);
  }

  void place(const ConvShape& conv, const Tile& tile, int64_t offset_group, const Range& taps);

  int64_t stride() const { return stride_; }
  int64_t plane() const { return plane_; }  // from a_j or b_j to the next
  bool missed(int64_t entry) const { return cells_.get()[entry] == kMissed; }
  int64_t row(int64_t entry) const { return cells_.get()[entry]; }  // of its cell in X
  int64_t column(int64_t entry) const { return cells_.get()[plane_ + entry]; }
  const A* values() const { return values_.get(); }    // a_0
  const A* changes() const { return changes_.get(); }  // b_0
  const A* points() const { return points_.get(); }    // fractions, m
  bool shifted() const { return shifted_; }
  template <class V>
  Point<V> point(int64_t entry) const {  // fractions, m
    return read_point<V>(points_.get() + entry);
  }
  template <class V>
  Point<V> shift(int64_t entry) const {  // y', x', m'
    return read_point<V>(shifts_.get() + entry);
  }

  // Bounding box of the pixels that all entries, or some, read. It can extend one pixel beyond each
  // side of X, for the zeros around it. Empty if all entries are outside the image.
  Box extent() const { return extent_.box(); }
  Box extent(const Entries& entries) const;
  // Computes index() of entries for a window with the pixels of `box`, `pixel` elements each.
  void locate(const Entries& entries, const Box& box, int64_t pixel);
  // The same for a window in which each entry has a cell of its own, two pixels wide.
  void number(const Entries& entries, int64_t pixel);
  // The same for X itself, whose rows are `row` elements apart: kBorder for cells of which a part
  // is outside, and for those behind `last`.
  void locate_in_place(const Entries& entries, int64_t row, int64_t pixel, int64_t last);
  static constexpr int32_t kBorder = -2;
  bool inside(int64_t y, int64_t x) const { return y >= 0 && y < height_ && x >= 0 && x < width_; }
  // Offset of an entry's cell in the window; negative if the entry is outside the image.
  const int32_t* index() const { return cells_.get() + 2 * plane_; }

 private:
  using V = Vector<A>;
  using I = Lanes<int32_t, kLanes<A>>;
  template <class P>
  Point<P> read_point(const A* from) const {
    return {load_as<P>(from), load_as<P>(from + plane_), load_as<P>(from + 2 * plane_)};
  }
  static constexpr int64_t kRowsAhead = 4;  // of offsets and masks, prefetched

  void place_bases(const ConvShape& conv, const Tile& tile);
  void place_entries(int64_t entry, const Point<V>& position, const Point<V>& size);
  void shift_entries(int64_t entry, const Point<V>& move);

  PositionLines<T> lines_;
  bool shifted_;
  int32_t height_, width_;  // of X
  int64_t stride_, plane_;
  Buffer<int32_t> cells_;      // y, x, index
  Buffer<A> bases_;            // y and x of a pixel's first tap
  Tile tile_{-1, 0, 0, 0, 0};  // of the bases
  Buffer<A> values_, points_, shifts_, changes_;
  Extent<kLanes<A>> extent_;
  bool gradient_;
};

template <class T>
void Taps<T>::place_bases(const ConvShape& conv, const Tile& tile) {
  if (tile == tile_) return;
  tile_ = tile;
  A* base = bases_.get();
  for (int64_t row = 0; row < tile.rows; ++row) {
    const A y = static_cast<A>((tile.top + row) * conv.stride_y - conv.pad_top);
    for (int64_t c = 0; c < tile.columns; ++c, ++base) {
      base[0] = y;
      base[stride_] = static_cast<A>((tile.left + c) * conv.stride_x - conv.pad_left);
    }
  }
}

template <class T>
void Taps<T>::place(const ConvShape& conv, const Tile& tile, int64_t offset_group,
                    const Range& taps) {
  place_bases(conv, tile);
  extent_ = {};
  A tap_y[kTaps], tap_x[kTaps];
  for (int64_t k = 0; k < taps.count(); ++k) {
    const int64_t tap = taps.first + k;
    tap_y[k] = static_cast<A>(tap / conv.kernel_width * conv.dilation_y);
    tap_x[k] = static_cast<A>(tap % conv.kernel_width * conv.dilation_x);
  }
  const Point<V> size{broadcast(static_cast<A>(conv.height)), broadcast(static_cast<A>(conv.width)),
                      V{}};
  // A tile is one line of memory, or one line for each row. Lanes past the end of a line are
  // overwritten by the next line; after the last line there is space for them.
  const PositionView<T> lines = lines_.place(conv, tile, offset_group, taps);
  const int64_t rows = lines.even_rows(tile) ? 1 : tile.rows, length = tile.pixels() / rows;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < taps.count(); ++k) {
      if (row + kRowsAhead < rows) lines.prefetch(k, row + kRowsAhead, length);
      const A* base = bases_.get() + row * length;
      const int64_t first = k * stride_ + row * length;
      for (int64_t i = 0; i < length; i += kLanes<A>) {
        const Point<V> offset = lines.point(k, row, i, length - i);
        const V y = load(base + i) + tap_y[k] + offset.y;
        const V x = load(base + stride_ + i) + tap_x[k] + offset.x;
        place_entries(first + i, {y, x, offset.mask}, size);
        if (shifted()) shift_entries(first + i, lines.move(k, row, i, length - i));
      }
    }
  }
}

// Compares before the conversion to integers, which is undefined for numbers out of range; NaN
// fails all comparisons.
template <class T>
MYOPS_INLINE void Taps<T>::place_entries(int64_t entry, const Point<V>& position,
                                         const Point<V>& size) {
  const auto hit =
      (position.y > -1) & (position.y < size.y) & (position.x > -1) & (position.x < size.x);
  const V y = hit ? position.y : V{}, x = hit ? position.x : V{};
  const V top = floor<A>(y), left = floor<A>(x);
  const I hits = __builtin_convertvector(hit, I);
  const I row = hits ? __builtin_convertvector(top, I) : I{} + kMissed;
  const I column = hits ? __builtin_convertvector(left, I) : I{} + kMissed;
  extent_.add(hits, row, column);
  store(cells_.get() + entry, row);
  store(cells_.get() + plane_ + entry, column);
  const Point<V> point{y - top, x - left, position.mask};
  const CornerWeights<V> weights = value_weights(point);
  for (int j = 0; j < 4; ++j) {
    store(values_.get() + j * plane_ + entry, weights.at[j] * point.mask);
  }
  if (!gradient_) return;
  store(points_.get() + entry, point.y);
  store(points_.get() + plane_ + entry, point.x);
  store(points_.get() + 2 * plane_ + entry, point.mask);
}

template <class T>
void Taps<T>::shift_entries(int64_t entry, const Point<V>& move) {
  store(shifts_.get() + entry, move.y);
  store(shifts_.get() + plane_ + entry, move.x);
  store(shifts_.get() + 2 * plane_ + entry, move.mask);
  const Point<V> point = this->template point<V>(entry);
  const CornerWeights<V> w = value_weights(point), wy = y_weights(point), wx = x_weights(point);
  for (int j = 0; j < 4; ++j) {
    const V change = move.mask * w.at[j] + point.mask * (move.y * wy.at[j] + move.x * wx.at[j]);
    store(changes_.get() + j * plane_ + entry, change);
  }
}

template <class T>
Box Taps<T>::extent(const Entries& entries) const {
  Extent<kLanes<A>> extent;
  for (int64_t k = entries.first_tap; k < entries.last_tap; ++k) {
    const int32_t *y = cells_.get() + k * stride_, *x = y + plane_;
    int64_t p = entries.first;
    for (; p + kLanes<A> <= entries.last; p += kLanes<A>) {
      const I row = load_as<I>(y + p);
      extent.add(row != kMissed, row, load_as<I>(x + p));
    }
    for (; p < entries.last; ++p) {
      const I row = I{} + y[p];
      extent.add(row != kMissed, row, I{} + x[p]);
    }
  }
  return extent.box();
}

template <class T>
void Taps<T>::number(const Entries& entries, int64_t pixel) {
  int32_t place = 0;
  for (int64_t k = entries.first_tap; k < entries.last_tap; ++k) {
    int32_t* to = cells_.get() + k * stride_ + 2 * plane_;
    for (int64_t p = entries.first; p < entries.last; ++p) {
      to[p] = missed(k * stride_ + p) ? -1 : place;
      place += 2 * static_cast<int32_t>(pixel);
    }
  }
}

template <class T>
void Taps<T>::locate_in_place(const Entries& entries, int64_t row, int64_t pixel, int64_t last) {
  const auto line = static_cast<int32_t>(row), step = static_cast<int32_t>(pixel);
  for (int64_t k = entries.first_tap; k < entries.last_tap; ++k) {
    const int32_t *y = cells_.get() + k * stride_, *x = y + plane_;
    int32_t* to = cells_.get() + k * stride_ + 2 * plane_;
    for (int64_t p = entries.first; p < entries.last; ++p) {
      const bool whole = (y[p] >= 0) & (y[p] < height_ - 1) & (x[p] >= 0) & (x[p] < width_ - 1);
      const int32_t place = (whole ? y[p] : 0) * line + (whole ? x[p] : 0) * step;
      to[p] = whole && place <= last ? place : y[p] == kMissed ? -1 : kBorder;
    }
  }
}

template <class T>
void Taps<T>::locate(const Entries& entries, const Box& box, int64_t pixel) {
  const auto top = static_cast<int32_t>(box.top), left = static_cast<int32_t>(box.left);
  const auto row = static_cast<int32_t>(box.columns() * pixel), step = static_cast<int32_t>(pixel);
  for (int64_t k = entries.first_tap; k < entries.last_tap; ++k) {
    const int32_t *y = cells_.get() + k * stride_, *x = y + plane_;
    int32_t* to = cells_.get() + k * stride_ + 2 * plane_;
    for (int64_t p = entries.first; p < entries.last; ++p) {
      const bool missed = y[p] == kMissed;  // x too; arithmetic on kMissed would overflow
      const int32_t line = missed ? top : y[p], column = missed ? left : x[p];
      const int32_t place = (line - top) * row + (column - left) * step;
      to[p] = missed ? -1 : place;
    }
  }
}

}  // namespace myops::deform::MYOPS_ISA
