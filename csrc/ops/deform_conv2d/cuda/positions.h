// Where an output pixel samples X, and with which weights: taps.h beside this folder has the
// mathematics.
#pragma once

#include "myops/device.h"

namespace myops {

struct DeformTensor {  // of four axes; null: left out
  const void* data;
  int64_t stride[4];
};

struct DeformResult {  // the same; null: not wanted
  void* data;
  int64_t stride[4];
};

struct DeformSizes {
  int64_t batch, channels, height, width;
  int64_t outputs, out_height, out_width;
  int64_t kernel_width, taps;
  int64_t groups, offset_groups;
  int64_t stride_y, stride_x, dilation_y, dilation_x, pad_top, pad_left;
};

namespace deform_kernels {

template <class T, class A>
A read(const DeformTensor& from, int64_t a, int64_t b, int64_t c, int64_t d) {
  const int64_t place =
      a * from.stride[0] + b * from.stride[1] + c * from.stride[2] + d * from.stride[3];
  return static_cast<A>(static_cast<const T*>(from.data)[place]);
}

template <class T, class A>
void write(const DeformResult& to, int64_t a, int64_t b, int64_t c, int64_t d, A value) {
  const int64_t place = a * to.stride[0] + b * to.stride[1] + c * to.stride[2] + d * to.stride[3];
  static_cast<T*>(to.data)[place] = static_cast<T>(value);
}

inline int64_t pixels(const DeformSizes& sizes) { return sizes.out_height * sizes.out_width; }

// One tap of one output pixel.
template <class A>
struct Position {
  bool hit;      // otherwise it samples 0, and has no derivatives
  int64_t y, x;  // the cell's upper left corner, which may be -1
  A fy, fx;      // within the cell
  A mask;
};

template <class T, class A>
Position<A> position(const DeformSizes& sizes, const DeformTensor& offset, const DeformTensor& mask,
                     int64_t n, int64_t group, int64_t tap, int64_t pixel) {
  const int64_t row = pixel / sizes.out_width, column = pixel % sizes.out_width;
  const int64_t plane = group * sizes.taps + tap;
  const A y = static_cast<A>(row * sizes.stride_y - sizes.pad_top) +
              static_cast<A>(tap / sizes.kernel_width * sizes.dilation_y) +
              read<T, A>(offset, n, 2 * plane, row, column);
  const A x = static_cast<A>(column * sizes.stride_x - sizes.pad_left) +
              static_cast<A>(tap % sizes.kernel_width * sizes.dilation_x) +
              read<T, A>(offset, n, 2 * plane + 1, row, column);
  Position<A> at{};
  at.mask = mask.data != nullptr ? read<T, A>(mask, n, plane, row, column) : A(1);
  // NaN fails all comparisons.
  at.hit = y > -1 && y < static_cast<A>(sizes.height) && x > -1 && x < static_cast<A>(sizes.width);
  if (!at.hit) return at;
  const A top = std::floor(y), left = std::floor(x);
  at.y = static_cast<int64_t>(top);
  at.x = static_cast<int64_t>(left);
  at.fy = y - top;
  at.fx = x - left;
  return at;
}

// Of the corners: upper left, upper right, lower left, lower right.
template <class A>
struct Corners {
  A at[4];
};

template <class A>
Corners<A> value_weights(const Position<A>& f) {
  return {{(1 - f.fy) * (1 - f.fx), (1 - f.fy) * f.fx, f.fy * (1 - f.fx), f.fy * f.fx}};
}
template <class A>
Corners<A> y_weights(const Position<A>& f) {
  return {{-(1 - f.fx), -f.fx, 1 - f.fx, f.fx}};
}
template <class A>
Corners<A> x_weights(const Position<A>& f) {
  return {{-(1 - f.fy), 1 - f.fy, -f.fy, f.fy}};
}

// The elements of a channel at the corners of a cell; 0 outside the image.
template <class T, class A>
Corners<A> corners(const DeformSizes& sizes, const DeformTensor& X, int64_t n, int64_t channel,
                   const Position<A>& at) {
  Corners<A> found{};
  for (int j = 0; j < 4; ++j) {
    const int64_t y = at.y + j / 2, x = at.x + j % 2;
    if (y < 0 || y >= sizes.height || x < 0 || x >= sizes.width) continue;
    found.at[j] = read<T, A>(X, n, channel, y, x);
  }
  return found;
}

template <class A>
A dot(const Corners<A>& a, const Corners<A>& b) {
  A sum = a.at[0] * b.at[0];
  for (int j = 1; j < 4; ++j) sum = std::fma(a.at[j], b.at[j], sum);
  return sum;
}

// A sample times its mask. One that lies outside is 0, which a mask that is not finite makes NaN.
template <class T, class A>
A sample(const DeformSizes& sizes, const DeformTensor& X, int64_t n, int64_t channel,
         const Position<A>& at, const Corners<A>& weights) {
  if (!at.hit) return at.mask * A(0);
  return dot(weights, corners<T, A>(sizes, X, n, channel, at));
}

template <class A>
Corners<A> masked(const Position<A>& at) {
  Corners<A> weights = value_weights(at);
  for (int j = 0; j < 4; ++j) weights.at[j] *= at.mask;
  return weights;
}

}  // namespace deform_kernels
}  // namespace myops
