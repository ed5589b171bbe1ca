// Reads a few channels of a tensor at the pixels of a tile, kLanes pixels at a time: one vector for
// each channel, in NCHW and in channels_last memory.
#pragma once

#include "transpose.h"

namespace myops::deform::MYOPS_ISA {

// Some channels of a tile, with the strides of memory.
template <class T>
class LineView {
 public:
  using A = Accumulate<T>;
  using V = Vector<A>;

  LineView() = default;
  LineView(const T* data, const T* end, int64_t channel, int64_t row, int64_t pixel)
      : data_(data), end_(end), channel_(channel), row_(row), pixel_(pixel) {}
  explicit operator bool() const { return data_ != nullptr; }

  // Whether rows of the tile follow one another without a gap.
  bool even_rows(const Tile& tile) const { return !*this || row_ == tile.columns * pixel_; }
  // Prefetches the first `count` pixels of a row: hardware does not, because rows of a tile are
  // short.
  void prefetch(int64_t channel, int64_t row, int64_t count) const {
    if (pixel_ != 1) return;
    const T* from = data_ + channel * channel_ + row * row_;
    for (int64_t i = 0; i < count; i += 64 / static_cast<int64_t>(sizeof(T))) {
      __builtin_prefetch(from + i);
    }
  }
  // Where the pixels of a row from `pixel` on follow one another; null: they do not.
  const T* contiguous(int64_t channel, int64_t row, int64_t pixel) const {
    return pixel_ == 1 ? data_ + channel * channel_ + row * row_ + pixel : nullptr;
  }
  // kLanes pixels of a row, or `count` if there are fewer; the other lanes are NaN.
  V at(int64_t channel, int64_t row, int64_t pixel, int64_t count) const {
    const T* from = data_ + channel * channel_ + row * row_ + pixel * pixel_;
    if (pixel_ == 1 && end_ - from >= kLanes<A>) {
      const V all = load_wide<A>(from);
      if (count >= kLanes<A>) return all;
      A numbers[kLanes<A>];
      for (int64_t i = 0; i < kLanes<A>; ++i) numbers[i] = static_cast<A>(i);
      return load(numbers) < static_cast<A>(count) ? all : V{} + kNaN;
    }
    A parts[kLanes<A>];
    std::fill_n(parts, kLanes<A>, kNaN);
    for (int64_t i = 0; i < std::min(count, kLanes<A>); ++i) {
      parts[i] = static_cast<A>(from[i * pixel_]);
    }
    return load(parts);
  }

 private:
  static constexpr A kNaN = std::numeric_limits<A>::quiet_NaN();

  const T *data_ = nullptr, *end_ = nullptr;
  int64_t channel_ = 0, row_ = 0, pixel_ = 0;  // steps
};

template <class T>
class Lines {
 public:
  using A = Accumulate<T>;
  using V = Vector<A>;

  // For tiles of up to `pixels` and up to `channels` of them at a time.
  Lines(const KernelContext& context, const StridedView<const T>& field, int64_t channels,
        int64_t pixels)
      : view_(field),
        plane_(round_up(pixels, kLanes<A>) + kLanes<A>),
        transposed_(context, field.channels_last() ? channels * plane_ : 0) {}

  // `channels` of a tile, valid until the next call; those up to `last` are read later. In
  // channels_last memory all of these are transposed at once, because the channels of one offset
  // group are only part of each cache line.
  LineView<T> place(const Tile& tile, const Range& channels, int64_t last) {
    if (!view_) return {};
    if (!view_.channels_last()) {
      return {view_.at(tile.image, channels.first, tile.top, tile.left), view_.end, view_.step[1],
              view_.step[2], view_.step[3]};
    }
    if (!(tile == tile_) || channels.first < held_.first || channels.last > held_.last) {
      tile_ = tile;
      held_ = {channels.first, last};
      transpose_lanes();
    }
    const T* from = transposed_.get() + (channels.first - held_.first) * plane_;
    return {from, from + channels.count() * plane_, plane_, tile.columns, 1};
  }

 private:
  void transpose_lanes() const {
    const bool apart = view_.step[3] != held_.count();
    const bool whole = view_.step[2] == tile_.columns * view_.step[3];
    const int64_t rows = whole ? 1 : tile_.rows, pixels = tile_.pixels() / rows;
    for (int64_t row = 0; row < rows; ++row) {
      const T* from = view_.at(tile_.image, held_.first, tile_.top + row, tile_.left);
      for (int64_t p = 0; p < pixels; p += kLanes<A>, from += kLanes<A> * view_.step[3]) {
        const int64_t left = pixels - p;
        for (int64_t i = kLanes<A>; apart && i < std::min(left, 2 * kLanes<A>); ++i) {
          prefetch_channels(from + i * view_.step[3], held_.count());
        }
        transpose_lanes(from, std::min(left, kLanes<A>), transposed_.get() + row * pixels + p);
      }
    }
  }
  // kLanes pixels, or `count` of them.
  void transpose_lanes(const T* from, int64_t count, T* to) const {
    const int64_t step = view_.step[3], channels = held_.count();
    for (int64_t c = 0; c < channels; c += kLanes<A>) {
      const T* first = from + c;
      V square[kLanes<A>];
      if (count == kLanes<A> && view_.end - first - (count - 1) * step >= kLanes<A>) {
        // Channels beyond those requested are read as well, if memory has them.
#pragma GCC unroll 16
        for (int64_t i = 0; i < kLanes<A>; ++i) square[i] = load_wide<A>(first + i * step);
      } else {
        const int64_t wanted = std::min(channels - c, kLanes<A>);
        for (int64_t i = 0; i < kLanes<A>; ++i) {
          const T* pixel = first + i * step;
          if (i >= count) {
            square[i] = V{};
          } else if (view_.end - pixel >= kLanes<A>) {
            square[i] = load_wide<A>(pixel);
          } else {
            A parts[kLanes<A>] = {};
            for (int64_t j = 0; j < wanted; ++j) parts[j] = static_cast<A>(pixel[j]);
            square[i] = load(parts);
          }
        }
      }
      transpose<A, kLanes<A>>(square);
      // Superfluous channels are stored to the place of the last channel, which overwrites them.
#pragma GCC unroll 16
      for (int64_t i = kLanes<A> - 1; i >= 0; --i) {
        store_narrow<A>(to + std::min(c + i, channels - 1) * plane_, square[i]);
      }
    }
  }

  StridedView<const T> view_;
  int64_t plane_;  // from a channel to the next in `transposed_`
  Buffer<T> transposed_;
  Tile tile_{-1, 0, 0, 0, 0};  // the tile that is transposed, and its channels
  Range held_{0, 0};
};

}  // namespace myops::deform::MYOPS_ISA
