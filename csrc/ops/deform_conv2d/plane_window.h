// A window of X with a plane for each channel: the pixels of a box, with the zeros around X, and
// behind them the zeros of a cell outside of X.
#pragma once

#include "image.h"

namespace myops::deform::MYOPS_ISA {

template <class T>
class PlaneWindow {
 public:
  using A = Accumulate<T>;

  PlaneWindow(const KernelContext& context, const ConvShape& conv, const StridedView<const T>& X)
      : X_(X),
        height_(conv.height),
        width_(conv.width),
        capacity_(largest(conv)),
        window_(context, capacity_ + kLanes<A>) {}

  bool fits(const Box& box, int64_t channels) const {
    return plane_of(box) * channels <= capacity_;
  }
  void fill(int64_t image, const Range& channels, const Box& box);
  const Box& box() const { return box_; }

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

  const A* plane(int64_t channel) const { return window_.get() + channel * plane_of(box_); }

 private:
  // Elements of the whole image with the zeros around it, as plane_of(), or half of a large window.
  static int64_t largest(const ConvShape& conv) {
    const double plane =
        static_cast<double>(conv.height + 3) * static_cast<double>(conv.width + 2) + 2;
    const double all = plane * static_cast<double>(conv.channels_per_offset());
    const int64_t most = std::min(static_cast<int64_t>(std::min(all, 1e9)), kWindow<A> / 2);
    // At least a cell, which samples beside an empty image read, too.
    return std::max(most, plane_of({0, 2, 0, 2}) * conv.channels_per_offset());
  }
  static int64_t plane_of(const Box& box) { return box.pixels() + box.columns() + 2; }
  void fill_plane(const T* from, const Box& box, const Box& in, A* to) const;

  StridedView<const T> X_;
  int64_t height_, width_, capacity_;
  Buffer<A> window_;
  Box box_{0, 0, 0, 0};
};

template <class T>
void PlaneWindow<T>::fill(int64_t image, const Range& channels, const Box& box) {
  box_ = box;
  const int64_t size = plane_of(box), width = box.columns(), count = channels.count();
  const Box in{std::max<int64_t>(box.top, 0), std::min(box.bottom, height_),
               std::max<int64_t>(box.left, 0), std::min(box.right, width_)};
  A* window = window_.get();
  if (in.top >= in.bottom || in.left >= in.right) {
    std::fill_n(window, count * size, A{});
  } else if (X_.step[3] == 1 && !X_.channels_last()) {
    for (int64_t c = channels.first; c < channels.last; ++c, window += size) {
      fill_plane(X_.at(image, c, in.top, in.left), box, in, window);
    }
  } else {
    std::fill_n(window, count * size, A{});
    window += (in.top - box.top) * width + in.left - box.left;
    for (int64_t y = in.top; y < in.bottom; ++y, window += width) {
      const T* const from = X_.at(image, channels.first, y, in.left);
      if (X_.step[1] == 1) {
        transpose_copy(from, X_.step[3], window, size, in.columns(), count);
        continue;
      }
      for (int64_t c = 0; c < count; ++c) {
        widen(from + c * X_.step[1], X_.step[3], in.columns(), window + c * size);
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
