// Writes results from sums in the accumulation type: planes of a tile, gradients of X.
#pragma once

#include "transpose.h"

namespace myops::deform::MYOPS_ISA {

// `channels` of a tile from planes of its pixels, `plane` elements apart.
template <class T, class A>
void write_planes(const A* from, int64_t plane, const StridedView<T>& out, const Tile& tile,
                  const Range& channels) {
  const bool whole = out.step[2] == tile.columns * out.step[3];  // rows without a gap
  const int64_t rows = whole ? 1 : tile.rows, columns = tile.pixels() / rows;
  for (int64_t row = 0; row < rows; ++row, from += columns) {
    T* to = out.at(tile.image, channels.first, tile.top + row, tile.left);
    if (out.channels_last()) {
      transpose_copy(from, plane, to, out.step[3], channels.count(), columns);
      continue;
    }
    for (int64_t c = 0; c < channels.count(); ++c, to += out.step[1]) {
      narrow(from + c * plane, columns, to);
    }
  }
}

// The gradients of offset and mask.
template <class T>
struct PositionOutputs {
  using A = Accumulate<T>;

  StridedView<T> offset, mask;  // not present: not needed

  // `sums`: a plane of the tile's pixels for y and x of every tap, then one for m of every tap.
  void write(const ConvShape& conv, const Tile& tile, int64_t offset_group, const Range& taps,
             const A* sums) const {
    const int64_t first = offset_group * conv.taps + taps.first, count = taps.count();
    const int64_t plane = tile.pixels();
    if (offset) write_planes(sums, plane, offset, tile, {2 * first, 2 * (first + count)});
    if (mask) {
      write_planes(sums + 2 * count * plane, plane, mask, tile, {first, first + count});
    }
  }
};

// Sets a gradient to 0. Outputs are dense in either layout.
template <class T>
void clear(const KernelContext& context, const StridedView<T>& out) {
  context.parallel_for(out.end - out.data, 1 << 18, [&](int64_t begin, int64_t end) {
    std::fill(out.data + begin, out.data + end, T{});
  });
}

// Rounds the sums of some channels of pixels [pixels.first, pixels.last) of an image, whose order
// is [pixel][channel].
template <class T, class A>
void write_pixels(const A* sums, const StridedView<T>& out, int64_t image, const Range& channels,
                  const Range& pixels) {
  constexpr int64_t kEach = 64;  // pixels
  const int64_t count = channels.count();
  if (out.channels_last()) {
    T* to = out.at(image, channels.first, 0, 0) + pixels.first * out.step[3];
    for (int64_t i = pixels.first; i < pixels.last; ++i, sums += count, to += out.step[3]) {
      narrow(sums, count, to);
    }
    return;
  }
  A planes[kChannels * kEach];
  for (int64_t i = pixels.first; i < pixels.last; i += kEach) {
    const int64_t some_pixels = std::min(kEach, pixels.last - i);
    for (int64_t c = 0; c < count; c += kChannels) {
      const int64_t some = std::min(kChannels, count - c);
      transpose_copy(sums + (i - pixels.first) * count + c, count, planes, kEach, some_pixels,
                     some);
      for (int64_t plane = 0; plane < some; ++plane) {
        T* const to = out.at(image, channels.first + c + plane, 0, 0);
        narrow(planes + plane * kEach, some_pixels, to + i);
      }
    }
  }
}

}  // namespace myops::deform::MYOPS_ISA
