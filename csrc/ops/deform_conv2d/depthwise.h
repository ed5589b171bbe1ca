// Depthwise convolution: nothing is summed over channels, so samples are added to the result
// immediately. Where samples are stored as columns, these are multiplied channel by channel.
#pragma once

#include "columns.h"

namespace myops::deform::MYOPS_ISA {

// The data for a strip of pixels: corners in `window`, weights a_j in planes, W as [tap][channel].
template <class A>
struct Strip {
  WindowView<const A> window;
  const int32_t* index;
  const A* values;
  int64_t plane, stride, taps, count;  // stride: entries from tap to tap; count: channels
  const A* filters;
};

// sums[i] += sum over taps of W(c + i, k) S(c + i, k) for kVectors vectors of channels of pixel p.
template <class V, int kVectors, class A>
inline void add_channels(const Strip<A>& strip, int64_t p, int64_t c, A* sums) {
  constexpr int64_t L = sizeof(V) / sizeof(A);
  V total[kVectors];
  for (int v = 0; v < kVectors; ++v) total[v] = load_as<V>(sums + v * L);
  for (int64_t k = 0; k < strip.taps; ++k) {
    const int64_t entry = k * strip.stride + p;
    const A* filter = strip.filters + k * strip.count + c;
    const CornerWeights<Vector<A>> w = vector_weights_at(strip.values + entry, strip.plane);
    if (strip.index[entry] < 0) {  // as in Columns: 0, or NaN
      for (int v = 0; v < kVectors; ++v) {
        total[v] = fma(load_as<V>(filter + v * L), strip.values[entry] * 0 - V{}, total[v]);
      }
      continue;
    }
    const Corners<const A> x(strip.window, strip.index[entry] + c);
    for (int v = 0; v < kVectors; ++v) {
      const V sample = blended<V>(x.at, w, v * L);
      total[v] = fma(load_as<V>(filter + v * L), sample, total[v]);
    }
  }
  for (int v = 0; v < kVectors; ++v) store(sums + v * L, total[v]);
}

// The last channels in short vectors. After them, the window has zeros, and filters and sums have
// those of the next tap and pixel, which are also computed but not stored.
template <class A>
void add_depthwise(const Strip<A>& strip, const Range& pixels, A* sums, int64_t sums_row) {
  constexpr int64_t L = kLanes<A>, Q = kQuad<A>;
  using Quad = Lanes<A, Q>;
  for (int64_t p = pixels.first; p < pixels.last; ++p, sums += sums_row) {
    int64_t c = 0;
    for (; c + 4 * L <= strip.count; c += 4 * L) add_channels<Vector<A>, 4>(strip, p, c, sums + c);
    for (; c + L <= strip.count; c += L) add_channels<Vector<A>, 1>(strip, p, c, sums + c);
    if constexpr (L > 2 * Q) {
      if (c + L / 2 <= strip.count) {
        add_channels<Lanes<A, L / 2>, 1>(strip, p, c, sums + c);
        c += L / 2;
      }
    }
    for (; c + Q <= strip.count; c += Q) add_channels<Quad, 1>(strip, p, c, sums + c);
    if (c == strip.count) continue;
    A last[Q] = {};
    const size_t bytes = static_cast<size_t>(strip.count - c) * sizeof(A);
    std::memcpy(last, sums + c, bytes);
    add_channels<Quad, 1>(strip, p, c, last);
    std::memcpy(sums + c, last, bytes);
  }
}

// sums[p][c] += sum over taps of weights[tap][c] * row p of the columns.
template <class A>
void multiply_depthwise(int64_t pixels, int64_t taps, int64_t count, const A* columns,
                        int64_t width, int64_t row, const A* weights, A* sums, int64_t sums_row) {
  for (int64_t p = 0; p < pixels; ++p, columns += row, sums += sums_row) {
    int64_t c = 0;
    for (; c + kLanes<A> <= count; c += kLanes<A>) {
      Vector<A> total = load(sums + c);
      for (int64_t k = 0; k < taps; ++k) {
        total = fma(load(weights + k * count + c), load(columns + k * width + c), total);
      }
      store(sums + c, total);
    }
    for (; c < count; ++c) {
      for (int64_t k = 0; k < taps; ++k)
        sums[c] = fma(weights[k * count + c], columns[k * width + c], sums[c]);
    }
  }
}

}  // namespace myops::deform::MYOPS_ISA
