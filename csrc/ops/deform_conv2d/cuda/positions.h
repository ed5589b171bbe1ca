// Where an output pixel samples X, and with which weights. ../taps.h explains the mathematics and
// the names.
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

// The tensors on which samples depend. X', y', x' and m' exist in the double backward pass only.
struct DeformInputs {
  DeformSizes sizes;
  DeformTensor X, offset, mask;
  DeformTensor X_direction, shift, mask_shift;
  bool shifted() const { return shift.data != nullptr || mask_shift.data != nullptr; }
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
// Of a weight group, and of an offset group.
inline int64_t channels_of(const DeformSizes& sizes) { return sizes.channels / sizes.groups; }
inline int64_t outputs_of(const DeformSizes& sizes) { return sizes.outputs / sizes.groups; }
inline int64_t sharing(const DeformSizes& sizes) { return sizes.channels / sizes.offset_groups; }

// An element of W: output channel, channel of its group, tap.
template <class T, class A>
A read_weight(const DeformSizes& sizes, const DeformTensor& W, int64_t o, int64_t c, int64_t tap) {
  return read<T, A>(W, o, c, tap / sizes.kernel_width, tap % sizes.kernel_width);
}

// One tap of one output pixel. I: the type of the numbers of an image's rows and columns.
template <class A, class I = int64_t>
struct Position {
  bool hit;  // otherwise it samples 0, and has no derivatives
  I y, x;    // the cell's upper left corner, which may be -1
  A fy, fx;  // within the cell
  A mask;
};

// `plane`: offset group * taps + tap; (row, column): the pixel; (y, x): where the tap is without
// its offset.
template <class T, class A, class I>
Position<A, I> position_at(const DeformInputs& inputs, I n, I plane, I row, I column, A y, A x) {
  y += read<T, A>(inputs.offset, n, 2 * plane, row, column);
  x += read<T, A>(inputs.offset, n, 2 * plane + 1, row, column);
  Position<A, I> at{};
  at.mask = inputs.mask.data != nullptr ? read<T, A>(inputs.mask, n, plane, row, column) : A(1);
  // NaN fails all comparisons.
  at.hit = y > -1 && y < static_cast<A>(inputs.sizes.height) && x > -1 &&
           x < static_cast<A>(inputs.sizes.width);
  if (!at.hit) return at;
  const A top = std::floor(y), left = std::floor(x);
  at.y = static_cast<I>(top);
  at.x = static_cast<I>(left);
  at.fy = y - top;
  at.fx = x - left;
  return at;
}

template <class T, class A>
Position<A> position(const DeformInputs& inputs, int64_t n, int64_t group, int64_t tap,
                     int64_t pixel) {
  const DeformSizes& sizes = inputs.sizes;
  const int64_t row = pixel / sizes.out_width, column = pixel % sizes.out_width;
  const A y = static_cast<A>(row * sizes.stride_y - sizes.pad_top) +
              static_cast<A>(tap / sizes.kernel_width * sizes.dilation_y);
  const A x = static_cast<A>(column * sizes.stride_x - sizes.pad_left) +
              static_cast<A>(tap % sizes.kernel_width * sizes.dilation_x);
  return position_at<T, A, int64_t>(inputs, n, group * sizes.taps + tap, row, column, y, x);
}

// y', x' and m' of a tap; 0 where none arrived.
template <class A>
struct Move {
  A y, x, mask;
};

template <class T, class A>
Move<A> move_at(const DeformInputs& inputs, int64_t n, int64_t plane, int64_t row, int64_t column) {
  Move<A> move{};
  if (inputs.shift.data != nullptr) {
    move.y = read<T, A>(inputs.shift, n, 2 * plane, row, column);
    move.x = read<T, A>(inputs.shift, n, 2 * plane + 1, row, column);
  }
  if (inputs.mask_shift.data != nullptr) {
    move.mask = read<T, A>(inputs.mask_shift, n, plane, row, column);
  }
  return move;
}

template <class T, class A>
Move<A> move_of(const DeformInputs& inputs, int64_t n, int64_t group, int64_t tap, int64_t pixel) {
  const int64_t width = inputs.sizes.out_width;
  return move_at<T, A>(inputs, n, group * inputs.sizes.taps + tap, pixel / width, pixel % width);
}

// Of the corners: upper left, upper right, lower left, lower right.
template <class A>
struct Corners {
  A at[4];
};

template <class A, class I>
Corners<A> value_weights(const Position<A, I>& f) {  // w
  return {{(1 - f.fy) * (1 - f.fx), (1 - f.fy) * f.fx, f.fy * (1 - f.fx), f.fy * f.fx}};
}
template <class A, class I>
Corners<A> y_weights(const Position<A, I>& f) {
  return {{-(1 - f.fx), -f.fx, 1 - f.fx, f.fx}};
}
template <class A, class I>
Corners<A> x_weights(const Position<A, I>& f) {
  return {{-(1 - f.fy), 1 - f.fy, -f.fy, f.fy}};
}

template <class A, class I>
Corners<A> masked(const Position<A, I>& at) {  // a = m w
  Corners<A> weights = value_weights(at);
  for (int j = 0; j < 4; ++j) weights.at[j] *= at.mask;
  return weights;
}

template <class A, class I>
Corners<A> changes(const Position<A, I>& at, const Move<A>& move) {  // b
  const Corners<A> w = value_weights(at), wy = y_weights(at), wx = x_weights(at);
  Corners<A> b{};
  for (int j = 0; j < 4; ++j) {
    b.at[j] = move.mask * w.at[j] + at.mask * (move.y * wy.at[j] + move.x * wx.at[j]);
  }
  return b;
}

// The elements of a channel at the corners of a cell; 0 outside the image.
template <class T, class A>
Corners<A> corners(const DeformSizes& sizes, const DeformTensor& X, int64_t n, int64_t channel,
                   bool hit, int64_t top, int64_t left) {
  Corners<A> found{};
  for (int j = 0; j < 4; ++j) {
    const int64_t y = top + j / 2, x = left + j % 2;
    if (!hit || y < 0 || y >= sizes.height || x < 0 || x >= sizes.width) continue;
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

// A place to sample at, for every channel that shares it.
template <class A>
struct Sampler {
  bool hit;
  int64_t y, x;
  Corners<A> a, b;
};

// What a product reads of a sample: A, or A'.
enum Column : int32_t { kValue, kChange };

template <class T, class A>
Sampler<A> sampler(const DeformInputs& inputs, int32_t column, int64_t n, int64_t group,
                   int64_t tap, int64_t pixel) {
  const Position<A> at = position<T, A>(inputs, n, group, tap, pixel);
  Sampler<A> made{at.hit, at.y, at.x, masked(at), {}};
  if (column == kChange) made.b = changes(at, move_of<T, A>(inputs, n, group, tap, pixel));
  return made;
}

// Outside of the image this is 0, which a mask that is not finite makes NaN.
template <class T, class A>
A sample(const DeformInputs& inputs, int32_t column, int64_t n, int64_t channel,
         const Sampler<A>& at) {
  const auto of = [&](const DeformTensor& X) {
    return corners<T, A>(inputs.sizes, X, n, channel, at.hit, at.y, at.x);
  };
  if (column == kValue) return dot(at.a, of(inputs.X));
  A sum = 0;
  if (inputs.shifted()) sum = dot(at.b, of(inputs.X));
  if (inputs.X_direction.data != nullptr) sum += dot(at.a, of(inputs.X_direction));
  return sum;
}

}  // namespace deform_kernels
}  // namespace myops
