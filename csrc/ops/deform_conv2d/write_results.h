// Writes the gradients of offset and mask of a tile.
#pragma once

#include "transpose.h"

namespace myops::deform::MYOPS_ISA {

template <class T>
struct PositionOutputs {
  using A = Accumulate<T>;

  StridedView<T> offset, mask;  // not present: not needed

  // `sums`: a plane of the tile's pixels for y and x of every tap, then one for m of every tap.
  void write(const ConvShape& conv, const Tile& tile, int64_t offset_group, const Range& taps,
             const A* sums) const {
    const int64_t first = offset_group * conv.taps + taps.first, count = taps.count();
    if (offset) write(offset, tile, 2 * first, 2 * count, sums);
    if (mask) write(mask, tile, first, count, sums + 2 * count * tile.pixels());
  }

 private:
  static void write(const StridedView<T>& out, const Tile& tile, int64_t channel, int64_t channels,
                    const A* from) {
    const int64_t plane = tile.pixels();
    for (int64_t row = 0; row < tile.rows; ++row, from += tile.columns) {
      T* to = out.at(tile.image, channel, tile.top + row, tile.left);
      if (out.step[1] == 1) {
        transpose_copy(from, plane, to, out.step[3], channels, tile.columns);
        continue;
      }
      for (int64_t c = 0; c < channels; ++c, to += out.step[1]) {
        narrow(from + c * plane, tile.columns, to);
      }
    }
  }
};

}  // namespace myops::deform::MYOPS_ISA
