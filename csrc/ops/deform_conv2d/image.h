// X as samplers want it: channels of a pixel side by side, in the type of the arithmetic.
//
// Where memory is laid out so already (channels_last, or a single channel) it is read in place.
// Otherwise the box of pixels that a tile reaches is copied into a window of bounded size; when
// offsets scatter the samples too widely, the tile is halved until each part's box fits (one
// sample has at most 2 x 2 pixels). The gradient of X takes the same road backwards.
#pragma once

#include "taps.h"

namespace myops::deform::MYOPS_ISA {

// A rectangle of pixels, ends excluded.
struct Box {
  int64_t top, bottom, left, right;
  int64_t columns() const { return right - left; }
  int64_t pixels() const { return (bottom - top) * (right - left); }
};

// The pixels that entries [begin, end) read.
inline Box reach(const Problem& problem, const Cell* cells, int64_t begin, int64_t end) {
  Box box{problem.height, 0, problem.width, 0};
  for (int64_t entry = begin; entry < end; ++entry) {
    const Cell& cell = cells[entry];
    if (!cell.inside) continue;
    box.top = std::min<int64_t>(box.top, cell.y);
    box.bottom = std::max<int64_t>(box.bottom, cell.y + 2);
    box.left = std::min<int64_t>(box.left, cell.x);
    box.right = std::max<int64_t>(box.right, cell.x + 2);
  }
  if (box.bottom == 0) return {0, 0, 0, 0};
  return {std::max<int64_t>(box.top, 0), std::min(box.bottom, problem.height),
          std::max<int64_t>(box.left, 0), std::min(box.right, problem.width)};
}

// Calls body(box, begin, end) for parts of [begin, end) whose boxes have at most `pixels` pixels.
template <class Body>
void in_windows(const Problem& problem, const Cell* cells, int64_t begin, int64_t end,
                int64_t pixels, const Body& body) {
  const Box box = reach(problem, cells, begin, end);
  if (box.pixels() <= pixels || end - begin == 1) {
    body(box, begin, end);
    return;
  }
  const int64_t middle = begin + (end - begin) / 2;
  in_windows(problem, cells, begin, middle, pixels, body);
  in_windows(problem, cells, middle, end, pixels, body);
}

// Pixels of some channels; `data` is pixel (top, left).
template <class A>
struct View {
  A* data;
  int64_t row, pixel, top, left;

  int64_t index(const Cell& cell) const { return (cell.y - top) * row + (cell.x - left) * pixel; }
};

// What a corner outside the image holds, for all channels of a block.
template <class A>
inline constexpr A kOutside[kChannels] = {};

template <class A>
struct Corners {
  const A* at[4];

  Corners(const View<const A>& view, const Cell& cell) {
    const int64_t first = view.index(cell);
    const int64_t place[4] = {first, first + view.pixel, first + view.row,
                              first + view.row + view.pixel};
    for (uint32_t j = 0; j < 4; ++j) {
      at[j] = cell.inside >> j & 1 ? view.data + place[j] : kOutside<A>;
    }
  }
};

// Reads X, or its direction X'.
template <class T>
class Source {
 public:
  using A = Accumulate<T>;

  Source(const KernelContext& context, const Problem& problem, const Tensor& tensor)
      : field_(tensor),
        in_place_(std::is_same_v<T, A> && (field_.step[1] == 1 || problem.field_channels() == 1)),
        window_(context, field_ && !in_place_ ? kWindow<A> : 0) {}
  explicit operator bool() const { return static_cast<bool>(field_); }
  bool needs_window() const { return field_ && !in_place_; }

  // Channels [first, last) of the pixels of `box`.
  View<const A> view(int64_t image, int64_t first, int64_t last, const Box& box) const {
    if (box.pixels() == 0) return {nullptr, 0, 0, 0, 0};  // all corners are outside
    const T* from = field_.at(image, first, box.top, box.left);
    if constexpr (std::is_same_v<T, A>) {
      if (in_place_) return {from, field_.step[2], field_.step[3], box.top, box.left};
    }
    const int64_t count = last - first;
    A* to = window_.get();
    for (int64_t y = box.top; y < box.bottom; ++y, from += field_.step[2]) {
      if (field_.step[1] == 1) {
        for (int64_t x = 0; x < box.columns(); ++x, to += count) {
          const T* pixel = from + x * field_.step[3];
          for (int64_t c = 0; c < count; ++c) to[c] = static_cast<A>(pixel[c]);
        }
        continue;
      }
      for (int64_t c = 0; c < count; ++c) {
        const T* line = from + c * field_.step[1];
        for (int64_t x = 0; x < box.columns(); ++x) {
          to[x * count + c] = static_cast<A>(line[x * field_.step[3]]);
        }
      }
      to += box.columns() * count;
    }
    return {window_.get(), box.columns() * count, count, box.top, box.left};
  }

 private:
  Field<const T> field_;
  bool in_place_;
  Buffer<A> window_;
};

// out (+)= sum_j weights_j X_j, channel by channel.
template <bool kAdd, class A>
inline void interpolate(const Corners<A>& corners, const Weights<A>& weights, int64_t channels,
                        A* out) {
  const auto [w0, w1, w2, w3] = weights.at;
  const A *x0 = corners.at[0], *x1 = corners.at[1], *x2 = corners.at[2], *x3 = corners.at[3];
  int64_t c = 0;
  for (; c + kLanes<A> <= channels; c += kLanes<A>) {
    const Vector<A> value =
        fma(broadcast(w3), load(x3 + c),
            fma(broadcast(w2), load(x2 + c), fma(broadcast(w1), load(x1 + c), w0 * load(x0 + c))));
    store(out + c, kAdd ? load(out + c) + value : value);
  }
  for (; c < channels; ++c) {
    const A value = fma(w3, x3[c], fma(w2, x2[c], fma(w1, x1[c], w0 * x0[c])));
    out[c] = kAdd ? out[c] + value : value;
  }
}

}  // namespace myops::deform::MYOPS_ISA
