// A window of X: the pixels of a box, with the zeros around X, and behind them the zeros of a cell
// outside of X. Each channel has a plane of its own, or up to four channels share one, of pixels
// with two or four elements: a load then reads both pixels of a pair, of all these channels.
#pragma once

#include "image.h"

namespace myops::deform::MYOPS_ISA {

template <class T>
class PlaneWindow {
 public:
  using A = Accumulate<T>;

  // Channels that are sampled together: two pixels of them fit a vector.
  static constexpr int64_t kMostTogether = std::min<int64_t>(kLanes<A> / 2, 4);

  // `together`: whether channels share planes.
  PlaneWindow(const KernelContext& context, const ConvShape& conv, const StridedView<const T>& X,
              bool together)
      : X_(X),
        height_(conv.height),
        width_(conv.width),
        together_(together),
        capacity_(largest(conv)),
        window_(context, capacity_ + kLanes<A>) {}

  bool fits(const Box& box, int64_t channels) const {
    return plane_of(box) * elements(channels) <= capacity_;
  }
  // The elements of a pixel for the first of `channels` that are left.
  int64_t pixel_for(int64_t channels) const {
    const int64_t pixel = !together_ || channels < 2 ? 1 : channels < 3 ? 2 : 4;
    return std::min(pixel, std::max<int64_t>(kMostTogether, 1));
  }
  // Does nothing if the window has these pixels already.
  void fill(int64_t image, const Range& channels, const Box& box);
  const Box& box() const { return box_; }
  // An image with the zeros around it.
  Box image() const { return {-1, height_ + 1, -1, width_ + 1}; }

  // Where the cells at (y, x) begin in a plane of X; negative for those that are not whole in it.
  void find_cells(int64_t count, const int32_t* y, const int32_t* x, int64_t* at) const {
    for (int64_t i = 0; i < count; ++i) {
      const bool whole = y[i] >= 0 && y[i] + 1 < height_ && x[i] >= 0 && x[i] + 1 < width_;
      at[i] = whole ? y[i] * X_.step[2] + x[i] * X_.step[3] : -1;
    }
  }
  // The corners of these cells of one channel, without a window. Those outside of X are 0.
  template <int64_t kMost>
  void read_cells(int64_t image, int64_t channel, int64_t count, const int32_t* y, const int32_t* x,
                  const int64_t* at, A (&corners)[4][kMost]) const {
    const T* const plane = X_.at(image, channel, 0, 0);
    const int64_t line = X_.step[2], pixel = X_.step[3];
    for (int64_t i = 0; i < count; ++i) {
      if (at[i] >= 0) {
        const T* const cell = plane + at[i];
        corners[0][i] = static_cast<A>(cell[0]);
        corners[1][i] = static_cast<A>(cell[pixel]);
        corners[2][i] = static_cast<A>(cell[line]);
        corners[3][i] = static_cast<A>(cell[line + pixel]);
        continue;
      }
      for (int64_t j = 0; j < 4; ++j) {
        const int64_t row = y[i] + j / 2, column = x[i] + j % 2;
        const bool inside = row >= 0 && row < height_ && column >= 0 && column < width_;
        corners[j][i] = inside ? static_cast<A>(plane[row * line + column * pixel]) : A{};
      }
    }
  }

  // Copies these cells of some channels to `to`, two rows of `row` elements in which each has two
  // pixels of kPixel elements.
  template <int64_t kPixel>
  void copy_cells(int64_t image, int64_t channel, int64_t channels, int64_t count, const int32_t* y,
                  const int32_t* x, const int64_t* at, int64_t row, A* to) const {
    const T* const first = X_.at(image, channel, 0, 0);
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < 4; ++j) {
        A* const pixel = to + j / 2 * row + (2 * i + j % 2) * kPixel;
        const int64_t line = y[i] + j / 2, column = x[i] + j % 2;
        const bool inside =
            at[i] >= 0 || (line >= 0 && line < height_ && column >= 0 && column < width_);
        if (!inside) {
          std::fill_n(pixel, kPixel, A{});
          continue;
        }
        const T* const from = first + line * X_.step[2] + column * X_.step[3];
        if (std::is_same_v<T, A> && X_.step[1] == 1 && X_.end - from >= kPixel) {
          std::memcpy(pixel, from, kPixel * sizeof(A));
          continue;
        }
        for (int64_t c = 0; c < channels; ++c) {
          pixel[c] = static_cast<A>(from[c * X_.step[1]]);
        }
      }
    }
  }

  // Calls body(data, channel, count, pixel) for the planes: count channels from `channel` on, in
  // pixels whose number of elements is a constant.
  template <class Body>
  MYOPS_INLINE void each_plane(int64_t channels, const Body& body) const {
    A* data = window_.get();
    for (int64_t c = 0; c < channels;) {
      const int64_t pixel = pixel_for(channels - c), count = std::min(pixel, channels - c);
      with_pixel<4>(pixel, [&](auto constant) { body(data, c, count, constant); });
      data += plane_of(box_) * pixel;
      c += count;
    }
  }

 private:
  template <int64_t kPixel, class Body>
  static MYOPS_INLINE void with_pixel(int64_t pixel, const Body& body) {
    if constexpr (kPixel == 1) {
      body(std::integral_constant<int64_t, 1>());
    } else {
      if constexpr (kPixel <= kMostTogether) {
        if (pixel == kPixel) return body(std::integral_constant<int64_t, kPixel>());
      }
      with_pixel<kPixel / 2>(pixel, body);
    }
  }
  // Elements of a pixel in all planes.
  int64_t elements(int64_t channels) const {
    int64_t sum = 0;
    for (int64_t pixel; channels > 0; channels -= pixel) sum += pixel = pixel_for(channels);
    return sum;
  }
  // Elements of the whole image with the zeros around it, as plane_of(), or half of a large window.
  int64_t largest(const ConvShape& conv) const {
    const double plane =
        static_cast<double>(conv.height + 3) * static_cast<double>(conv.width + 2) + 2;
    const int64_t pixel = elements(conv.channels_per_offset());
    const double all = plane * static_cast<double>(pixel);
    const int64_t most = std::min(static_cast<int64_t>(std::min(all, 1e9)), kWindow<A> / 2);
    // At least a cell, which samples beside an empty image read, too.
    return std::max(most, plane_of({0, 2, 0, 2}) * pixel);
  }
  static int64_t plane_of(const Box& box) { return box.pixels() + box.columns() + 2; }
  void fill_plane(const T* from, const Box& box, const Box& in, A* to) const;
  template <int64_t kPixel>
  void fill_line(const T* from, int64_t columns, int64_t channels, A* to) const;

  StridedView<const T> X_;
  int64_t height_, width_;
  bool together_;
  int64_t capacity_;
  Buffer<A> window_;
  int64_t image_ = -1;  // of the pixels in the window, and their channels and box
  Range channels_{0, 0};
  Box box_{0, 0, 0, 0};
};

template <class T>
void PlaneWindow<T>::fill(int64_t image, const Range& channels, const Box& box) {
  if (image == image_ && channels == channels_ && box == box_) return;
  image_ = image;
  channels_ = channels;
  box_ = box;
  const int64_t width = box.columns();
  const Box in{std::max<int64_t>(box.top, 0), std::min(box.bottom, height_),
               std::max<int64_t>(box.left, 0), std::min(box.right, width_)};
  const bool empty = in.top >= in.bottom || in.left >= in.right;
  each_plane(channels.count(), [&](A* plane, int64_t first, int64_t count, auto pixel) {
    const int64_t c = channels.first + first;
    if (!empty && pixel == 1 && X_.step[3] == 1) {
      return fill_plane(X_.at(image, c, in.top, in.left), box, in, plane);
    }
    A* to = plane;
    const auto zeros = [&](int64_t pixels) {
      std::fill_n(to, pixels * pixel, A{});
      to += pixels * pixel;
    };
    if (empty) return zeros(plane_of(box));
    zeros((in.top - box.top) * width);
    for (int64_t y = in.top; y < in.bottom; ++y) {
      zeros(in.left - box.left);
      fill_line<pixel>(X_.at(image, c, y, in.left), in.columns(), count, to);
      to += in.columns() * pixel;
      zeros(box.right - in.right);
    }
    zeros((box.bottom - in.bottom) * width + width + 2);
  });
}

// The pixels of a line. Elements behind the channels of a pixel have no meaning.
template <class T>
template <int64_t kPixel>
void PlaneWindow<T>::fill_line(const T* from, int64_t columns, int64_t channels, A* to) const {
  const int64_t channel = X_.step[1], step = X_.step[3];
  if constexpr (kPixel == 1) {
    widen(from, step, columns, to);
  } else if (step == 1) {
    if (kPixel > 2 || columns < kLanes<A>) {
      return spread_rows<kPixel>(from, channel, channels, columns, to,
                                 PixelLines{kPixel, columns, 0});
    }
    for (int64_t x = 0; x < columns; x += kLanes<A>) {
      x = std::min(x, columns - kLanes<A>);  // the last ones a second time
      store_interleaved(load_wide<A>(from + x), load_wide<A>(from + x + channel), to + 2 * x);
    }
  } else {
    constexpr int64_t kPixels = kLanes<A> / kPixel, kMost = kPixels - 1;
    int64_t x = 0;
    if (channel == 1 && step >= 0) {  // whole vectors, as long as their memory belongs to X
      for (; x + kPixels <= columns; x += kPixels) {
        if (X_.end - from - x * step < kMost * step + kPixel) break;
        store(to + x * kPixel, load_groups_wide<kPixel, A>(from + x * step, step));
      }
    }
    for (; x < columns; ++x) {
      for (int64_t c = 0; c < channels; ++c) {
        to[x * kPixel + c] = static_cast<A>(from[x * step + c * channel]);
      }
    }
  }
}

// In whole vectors, because rows can be short. What is written behind a row is overwritten with the
// next one.
template <class T>
void PlaneWindow<T>::fill_plane(const T* from, const Box& box, const Box& in, A* to) const {
  const int64_t width = box.columns(), columns = in.columns();
  const bool before = in.left > box.left, behind = in.right < box.right;  // one zero each
  std::fill_n(to, (in.top - box.top) * width, A{});
  to += (in.top - box.top) * width;
  for (int64_t y = in.top; y < in.bottom; ++y, from += X_.step[2], to += width) {
    if (before) to[0] = A{};
    A* const row = to + before;
    for (int64_t x = 0; x < columns; x += kLanes<A>) {
      if (X_.end - from - x >= kLanes<A>) {
        store(row + x, load_wide<A>(from + x));
        continue;
      }
      for (int64_t i = x; i < columns; ++i) row[i] = static_cast<A>(from[i]);
    }
    if (behind) row[columns] = A{};
  }
  std::fill_n(to, (box.bottom - in.bottom) * width + width + 2, A{});
}

}  // namespace myops::deform::MYOPS_ISA
