// What the kernels that compute in tiles know of a call: sizes in 32 bits, with divisors, and where
// a tap of a pixel samples an image whose channels are neighbours (packing.h).
//
// Channels are divided into parts of equal length, each in one weight group and one offset group. A
// part is padded with zeros to whole packs of 16 bytes. `columns` of a part are tap * channels +
// channel.
#pragma once

#include "deform_conv2d/cuda/positions.h"
#include "myops/tensor_cores.h"

namespace myops {

struct DeformShape {
  int32_t batch, height, width;
  int32_t outputs;         // of a group
  int32_t padded_outputs;  // to whole packs
  int32_t taps, kernel_width, out_width;
  int32_t stride_y, stride_x, dilation_y, dilation_x, pad_top, pad_left;
  int32_t pixels, padded_pixels;  // of an image of the output
  int32_t groups, offset_groups;
  int32_t parts;                             // of all channels
  int32_t parts_of_group, parts_of_offsets;  // of a weight group, of an offset group
  int32_t channels, padded_channels;         // of a part
  int32_t columns() const { return taps * padded_channels; }
  Divisor by_pixels, by_padded_pixels, by_out_width, by_kernel_width, by_taps, by_height, by_width,
      by_offset_groups;
  Divisor by_channels;  // padded
};

namespace deform_kernels {

struct Pixel {
  int32_t n, pixel;
};
// Pixel p of all images, whose pixels are padded.
inline Pixel pixel_of(const DeformShape& shape, int32_t p) {
  const int32_t n = divided(p, shape.by_padded_pixels);
  return {n, p - n * shape.padded_pixels};
}

struct RowColumn {
  int32_t row, column;
};
inline RowColumn row_column(const DeformShape& shape, int32_t pixel) {
  const int32_t row = divided(pixel, shape.by_out_width);
  return {row, pixel - row * shape.out_width};
}

template <class T, class A>
Position<A, int32_t> position(const DeformInputs& inputs, const DeformShape& shape, int32_t n,
                              int32_t group, int32_t tap, const RowColumn& at) {
  const int32_t i = divided(tap, shape.by_kernel_width), j = tap - i * shape.kernel_width;
  const A y = static_cast<A>(at.row * shape.stride_y - shape.pad_top) +
              static_cast<A>(i * shape.dilation_y);
  const A x = static_cast<A>(at.column * shape.stride_x - shape.pad_left) +
              static_cast<A>(j * shape.dilation_x);
  return position_at<T, A, int32_t>(inputs, n, group * shape.taps + tap, at.row, at.column, y, x);
}

// Which weights a product multiplies the corners with: a_j or b_j of ../taps.h.
enum Weights : int32_t { kMasked, kChanges };

// Where to sample: numbers of packs of an image's first channel of a part, and the weights.
constexpr uint32_t kOutside = 0xffffffffu;
template <class A>
struct alignas(16) Taken {
  uint32_t at[4];
  A weights[4];
};

// `part`: whose first channel is sampled. Outside of the image a sample is 0, which a mask that is
// not finite makes NaN.
template <class T, class A, class I>
void place_corners(const DeformShape& shape, int32_t n, int32_t part, const Position<A, I>& at,
                   uint32_t* corners) {
  const uint32_t of_part = static_cast<uint32_t>(shape.padded_channels / Pack<T>::kCount);
  for (int j = 0; j < 4; ++j) {
    const int32_t y = at.y + j / 2, x = at.x + j % 2;
    const bool inside = at.hit && y >= 0 && y < shape.height && x >= 0 && x < shape.width;
    const uint32_t pixel = (static_cast<uint32_t>(n) * static_cast<uint32_t>(shape.height) +
                            static_cast<uint32_t>(y)) *
                               static_cast<uint32_t>(shape.width) +
                           static_cast<uint32_t>(x);
    const uint32_t place = pixel * static_cast<uint32_t>(shape.parts) + static_cast<uint32_t>(part);
    corners[j] = inside ? place * of_part : kOutside;
  }
}

template <class T, class A>
Taken<A> taken(const DeformInputs& inputs, const DeformShape& shape, int32_t weights, int32_t n,
               int32_t part, int32_t tap, int32_t pixel) {
  const int32_t group = part / shape.parts_of_offsets;
  const RowColumn place = row_column(shape, pixel);
  const auto at = position<T, A>(inputs, shape, n, group, tap, place);
  Corners<A> factors = masked(at);
  if (weights == kChanges) {
    factors =
        changes(at, move_at<T, A>(inputs, n, group * shape.taps + tap, place.row, place.column));
  }
  Taken<A> made;
  place_corners<T, A>(shape, n, part, at, made.at);
  for (int j = 0; j < 4; ++j) made.weights[j] = factors.at[j];
  return made;
}

// A pack of elements as it is read: GPUs take elements of 16 bits from words as they convert them.
using Words = Pack<uint32_t>;
inline Words words_at(const void* from, int64_t pack) {
#ifdef __CUDACC__
  return static_cast<const Words*>(from)[pack];
#else  // not the type of what was stored there
  Words words;
  std::memcpy(&words, static_cast<const char*>(from) + 16 * pack, 16);
  return words;
#endif
}
template <class T, class A>
A element_of(const Words& words, int v) {
  if constexpr (sizeof(T) == 2) {
    return TensorWord<T>::element(words.at[v / 2], v % 2);
  } else if constexpr (sizeof(T) == 4) {
    return detail::bit_cast<T>(words.at[v]);
  } else {
    return detail::bit_cast<T>(uint64_t{words.at[2 * v]} | uint64_t{words.at[2 * v + 1]} << 32);
  }
}

// The packs of an image at the four corners; 0 outside.
struct CornerPacks {
  Words at[4];
};
inline CornerPacks corner_packs(const void* packs, const uint32_t* at, int32_t pack) {
  CornerPacks found{};
  for (int j = 0; j < 4; ++j) {
    if (at[j] == kOutside) continue;
    found.at[j] = words_at(packs, int64_t{at[j] + static_cast<uint32_t>(pack)});
  }
  return found;
}

// Of the channels of a pack.
template <class T, class A>
void sample_packs(const CornerPacks& packs, const A* weights, A* samples) {
  for (int v = 0; v < Pack<T>::kCount; ++v) {
    A sum = weights[0] * element_of<T, A>(packs.at[0], v);
    for (int j = 1; j < 4; ++j) {
      sum = std::fma(weights[j], element_of<T, A>(packs.at[j], v), sum);
    }
    samples[v] = sum;
  }
}

}  // namespace deform_kernels
}  // namespace myops
