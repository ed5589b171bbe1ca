// One tap of a strip of pixels: gradients from T and the corners of its samples.
#pragma once

#include "image.h"

namespace myops::deform::MYOPS_ISA {

// The first `count` lanes of a vector, the others 0.
template <class V, class A>
MYOPS_INLINE V first_lanes(const V& vector, int64_t count) {
  using I = Lanes<std::conditional_t<sizeof(A) == 4, int32_t, int64_t>, sizeof(V) / sizeof(A)>;
  I lane{};
  for (size_t i = 0; i < sizeof(V) / sizeof(A); ++i) lane[i] = static_cast<int32_t>(i);
  return (V)((I)vector & (lane < static_cast<int32_t>(count)));
}

// The sums over `channels` of values * corner j. kPartial: the last vector has lanes of the next
// tap, which can be infinite, and count as 0.
template <class V, bool kPartial, class A>
MYOPS_INLINE Lanes<A, 4> products(const A* const (&corners)[4], const A* values, int64_t channels) {
  V totals[4] = {};
  constexpr auto L = static_cast<int64_t>(sizeof(V) / sizeof(A));
  for (int64_t c = 0; c < channels; c += L) {
    V value = load_as<V>(values + c);
    if (kPartial && channels - c < L) value = first_lanes<V, A>(value, channels - c);
    for (int j = 0; j < 4; ++j) totals[j] = fma(value, load_as<V>(corners[j] + c), totals[j]);
  }
  return sums<A>(totals);
}

// corner j += weight_j * values. Elements after the channels of a corner may be written.
template <class V, class A>
MYOPS_INLINE void scatter(A* const (&corners)[4], const CornerWeights<A>& weights, const A* values,
                          int64_t channels) {
  for (int64_t c = 0; c < channels; c += static_cast<int64_t>(sizeof(V) / sizeof(A))) {
    const V value = load_as<V>(values + c);
    for (int j = 0; j < 4; ++j) {
      store(corners[j] + c, fma(weights.at[j] - V{}, value, load_as<V>(corners[j] + c)));
    }
  }
}

// One tap of a strip of pixels.
template <class A>
struct TapStrip {
  const int32_t* index;
  int64_t pixels;
  const A* weights;  // of the first corner; `plane` further on those of the next
  int64_t plane;
  const A* values;  // T, `row` elements from a pixel to the next
  int64_t row;
  WindowView<const A> X;
  WindowView<A> out;  // no data: not needed
  A* sums;            // of T and X, 8 elements from a pixel to the next; null: not wanted
  bool more = false;  // add to `sums`
};

// A pixel is one vector V, without loops over channels. kPartial: of which `count` lanes are
// channels.
template <class V, bool kPartial, bool kSums, bool kOut, class A>
void add_tap_of_one(TapStrip<A> at, int64_t count) {
  at.X.pixel = at.out.pixel = sizeof(V) / sizeof(A);
  const V used = first_lanes<V, A>((V)(V{} == V{}), count);
  using Bits = Lanes<int64_t, sizeof(V) / 8>;
  for (int64_t p = 0; p < at.pixels; ++p, at.values += at.row) {
    const int32_t place = at.index[p];
    if (place < 0) continue;
    V value = load_as<V>(at.values);
    if (kPartial) value = (V)((Bits)value & (Bits)used);
    if constexpr (kSums) {
      const Corners<const A> corners(at.X, place);
      V totals[4];
      for (int j = 0; j < 4; ++j) totals[j] = value * load_as<V>(corners.at[j]);
      Lanes<A, 4> F = sums<A>(totals);
      if (at.more) F += load_as<Lanes<A, 4>>(at.sums + 8 * p);
      store(at.sums + 8 * p, F);
    }
    if constexpr (kOut) {
      const Corners<A> corners(at.out, place);
      for (int j = 0; j < 4; ++j) {
        const V weight = at.weights[p + j * at.plane] - V{};
        store(corners.at[j], fma(weight, value, load_as<V>(corners.at[j])));
      }
    }
  }
}
template <class V, bool kPartial, class A>
void add_tap_of_one(const TapStrip<A>& strip, int64_t count) {
  if (strip.sums && strip.out.data) return add_tap_of_one<V, kPartial, true, true>(strip, count);
  if (strip.sums) return add_tap_of_one<V, kPartial, true, false>(strip, count);
  if (strip.out.data) add_tap_of_one<V, kPartial, false, true>(strip, count);
}

// Passed by value, so that all members are in registers. kPartial: the last vector of a pixel has
// fewer channels.
template <class V, bool kPartial, class A>
void add_tap_of(TapStrip<A> at, int64_t count) {
  for (int64_t p = 0; p < at.pixels; ++p, at.values += at.row) {
    const int32_t place = at.index[p];
    if (place < 0) continue;
    if (at.sums) {
      Lanes<A, 4> F = products<V, kPartial>(Corners<const A>(at.X, place).at, at.values, count);
      if (at.more) F += load_as<Lanes<A, 4>>(at.sums + 8 * p);
      store(at.sums + 8 * p, F);
    }
    if (at.out.data) {
      const CornerWeights<A> weights = weights_at(at.weights + p, at.plane);
      scatter<V>(Corners<A>(at.out, place).at, weights, at.values, count);
    }
  }
}
template <class V, class A>
void add_tap_by(const TapStrip<A>& strip, int64_t count) {
  constexpr auto L = static_cast<int64_t>(sizeof(V) / sizeof(A));
  const bool one = count <= L, partial = count % L != 0;
  if (one && partial) return add_tap_of_one<V, true>(strip, count);
  if (one) return add_tap_of_one<V, false>(strip, count);
  if (partial) return add_tap_of<V, true>(strip, count);
  add_tap_of<V, false>(strip, count);
}
// Chooses the longest vectors that divide `count`, the channels of a pixel.
template <class A>
void add_tap(const TapStrip<A>& strip, int64_t count) {
  const int64_t pixel = pixel_of<A>(count);
  if (pixel % kLanes<A> == 0) return add_tap_by<Vector<A>>(strip, count);
  if constexpr (kLanes<A> > 2 * kQuad<A>) {
    if (pixel % (kLanes<A> / 2) == 0) return add_tap_by<Lanes<A, kLanes<A> / 2>>(strip, count);
  }
  add_tap_by<Lanes<A, kQuad<A>>>(strip, count);
}

// F_j of kLanes pixels, 8 elements from a pixel to the next in memory.
template <class A>
MYOPS_INLINE void load_sums(const A* from, Vector<A> (&F)[4]) {
  if constexpr (kLanes<A> < 4) {
    for (int64_t i = 0; i < kLanes<A>; ++i) {
      for (int j = 0; j < 4; ++j) F[j][i] = from[8 * i + j];
    }
  } else {
    int32_t at[kLanes<A>];
    for (int32_t i = 0; i < kLanes<A>; ++i) at[i] = 8 * (i / 4 * 4);
    for (int i = 0; i < 4; ++i) F[i] = load_fours(from + 8 * i, at);
    transpose_fours<A>(F);
  }
}

// to += values, `count` of them.
template <class A>
MYOPS_INLINE void add_lanes(const Vector<A>& values, int64_t count, A* to) {
  if (count == kLanes<A>) return store(to, load(to) + values);
  for (int64_t i = 0; i < count; ++i) to[i] += values[i];
}

template <class V>
inline V inner(const CornerWeights<V>& a, const V (&b)[4]) {
  return a.at[0] * b[0] + a.at[1] * b[1] + a.at[2] * b[2] + a.at[3] * b[3];
}

// dL/dy, dL/dx and dL/dm of samples from their sums F_j and H_j; see taps.h.
template <class V>
inline Point<V> position_gradient(const Point<V>& point, const V (&F)[4]) {
  return {point.mask * inner(y_weights(point), F), point.mask * inner(x_weights(point), F),
          inner(value_weights(point), F)};
}
template <class V>
inline Point<V> shifted_gradient(const Point<V>& point, const Point<V>& shift, const V (&H)[4]) {
  const V along_y = inner(y_weights(point), H), along_x = inner(x_weights(point), H);
  const V mixed = point.mask * (H[0] - H[1] - H[2] + H[3]);
  return {shift.mask * along_y + shift.x * mixed, shift.mask * along_x + shift.y * mixed,
          shift.y * along_y + shift.x * along_x};
}

}  // namespace myops::deform::MYOPS_ISA
