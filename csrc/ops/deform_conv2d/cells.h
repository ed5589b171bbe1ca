// Cells of four corners: positions within a cell, weights of the corners, bounding boxes of cells.
// The mathematics are in taps.h.
#pragma once

#include <array>

#include "blocking.h"

namespace myops::deform::MYOPS_ISA {

// Marks a position that samples 0 and has no gradient; stored instead of the cell's row.
inline constexpr int32_t kMissed = std::numeric_limits<int32_t>::min();

template <class V>
struct CornerWeights {
  V at[4];
};

template <class A>
inline CornerWeights<A> weights_at(const A* first, int64_t plane) {
  return {{first[0], first[plane], first[2 * plane], first[3 * plane]}};
}

template <class A>
inline CornerWeights<Vector<A>> vector_weights_at(const A* first, int64_t plane) {
  return {{broadcast(first[0]), broadcast(first[plane]), broadcast(first[2 * plane]),
           broadcast(first[3 * plane])}};
}

template <class V>
struct Point {  // fractions and mask, or the direction (y', x', m')
  V y, x, mask;
};

template <class V>
inline CornerWeights<V> value_weights(const Point<V>& f) {
  return {{(1 - f.y) * (1 - f.x), (1 - f.y) * f.x, f.y * (1 - f.x), f.y * f.x}};
}
template <class V>
inline CornerWeights<V> y_weights(const Point<V>& f) {
  return {{-(1 - f.x), -f.x, 1 - f.x, f.x}};
}
template <class V>
inline CornerWeights<V> x_weights(const Point<V>& f) {
  return {{-(1 - f.y), 1 - f.y, -f.y, f.y}};
}

// A part of the entries of a tile: taps [first_tap, last_tap) of pixels [first, last).
struct Entries {
  int64_t first_tap, last_tap, first, last;
  int64_t taps() const { return last_tap - first_tap; }
  int64_t pixels() const { return last - first; }
  // Of the taps, or of the pixels of one tap.
  std::array<Entries, 2> halves() const {
    std::array<Entries, 2> half{*this, *this};
    if (taps() > 1) {
      half[0].last_tap = half[1].first_tap = first_tap + taps() / 2;
    } else {
      half[0].last = half[1].first = first + pixels() / 2;
    }
    return half;
  }
};

// A rectangle of pixels, ends excluded.
struct Box {
  int64_t top, bottom, left, right;
  int64_t columns() const { return right - left; }
  int64_t pixels() const { return (bottom - top) * (right - left); }
  bool operator==(const Box& other) const {
    return top == other.top && bottom == other.bottom && left == other.left && right == other.right;
  }
};

// The bounding box of the cells of positions inside the image, computed for kCount positions at a
// time.
template <int64_t kCount>
struct Extent {
  using I = Lanes<int32_t, kCount>;
  static constexpr int32_t kHigh = std::numeric_limits<int32_t>::max();
  I top = I{} + kHigh, bottom = I{} + kMissed, left = I{} + kHigh, right = I{} + kMissed;

  // For positions outside, y and x are kMissed.
  void add(const I& hits, const I& y, const I& x) {
    const I low_y = hits ? y : I{} + kHigh, low_x = hits ? x : I{} + kHigh;
    top = low_y < top ? low_y : top;
    bottom = y > bottom ? y : bottom;
    left = low_x < left ? low_x : left;
    right = x > right ? x : right;
  }
  Box box() const {
    Box all{kHigh, kMissed, kHigh, kMissed};
    for (int64_t i = 0; i < kCount; ++i) {
      all.top = std::min<int64_t>(all.top, top[i]);
      all.bottom = std::max<int64_t>(all.bottom, bottom[i]);
      all.left = std::min<int64_t>(all.left, left[i]);
      all.right = std::max<int64_t>(all.right, right[i]);
    }
    if (all.bottom == kMissed) return {0, 0, 0, 0};
    return {all.top, all.bottom + 2, all.left, all.right + 2};
  }
};

}  // namespace myops::deform::MYOPS_ISA
