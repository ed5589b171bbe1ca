// The gradient of Y in the layout that products read, in the accumulation type.
#pragma once

#include "transpose.h"

namespace myops::deform::MYOPS_ISA {

// Row o - outputs.first of `to` holds pixels of output o, rows `to_row` elements apart.
template <class T, class A>
void read_by_output(const StridedView<const T>& gradient, const Tile& tile, const Range& pixels,
                    const Range& outputs, A* to, int64_t to_row) {
  // To the same pixel of the next strip of the tile. Hardware does not prefetch it: one strip has
  // few pixels of each output.
  const int64_t ahead = pixels.count() >= tile.columns
                            ? pixels.count() / tile.columns * gradient.step[2]
                            : pixels.count() * gradient.step[3];
  const bool prefetches = gradient.step[3] == 1 && pixels.last < tile.pixels();
  // In the last strip, or a tile that is read at once: to the pixels of a later output.
  constexpr int64_t kAhead = 2;
  const bool all = gradient.step[3] == 1 && !prefetches;
  const auto read_line = [&](const T* from, int64_t count, int64_t done) {
    if (gradient.step[1] == 1) {
      transpose_copy(from, gradient.step[3], to + done, to_row, count, outputs.count());
      return;
    }
    for (int64_t o = 0; o < outputs.count(); ++o, from += gradient.step[1]) {
      if (prefetches) prefetch_channels(from + ahead, count);
      if (all && o + kAhead < outputs.count()) {
        prefetch_channels(from + kAhead * gradient.step[1], count);
      }
      widen(from, gradient.step[3], count, to + o * to_row + done);
    }
  };
  if (gradient.step[2] == tile.columns * gradient.step[3]) {  // rows follow without a gap
    const T* first = gradient.at(tile.image, outputs.first, tile.top, tile.left);
    return read_line(first + pixels.first * gradient.step[3], pixels.count(), 0);
  }
  for_each_line(tile, pixels, [&](int64_t row, int64_t column, int64_t count, int64_t done) {
    read_line(gradient.at(tile.image, outputs.first, row, column), count, done);
  });
}

// Row p - pixels.first of `to` holds the outputs of pixel p.
template <class T, class A>
MYOPS_NOINLINE void read_by_pixel(const StridedView<const T>& gradient, const Tile& tile,
                                  const Range& pixels, const Range& outputs, A* to) {
  const int64_t row = outputs.count(), output = gradient.step[1], pixel = gradient.step[3];
  const auto read_line = [&](const T* from, int64_t count, int64_t done) {
    A* out = to + done * row;
    if (pixel == 1) return transpose_copy(from, output, out, row, row, count);
    for (int64_t p = 0; p < count; ++p, from += pixel, out += row) widen(from, output, row, out);
  };
  if (gradient.step[2] == tile.columns * pixel) {  // rows follow without a gap
    const T* first = gradient.at(tile.image, outputs.first, tile.top, tile.left);
    return read_line(first + pixels.first * pixel, pixels.count(), 0);
  }
  for_each_line(tile, pixels, [&](int64_t y, int64_t x, int64_t count, int64_t done) {
    read_line(gradient.at(tile.image, outputs.first, y, x), count, done);
  });
}

// The gradient of Y for a strip of pixels, read directly from the tensor or from a copy.
template <class T>
class GradientStrip {
 public:
  using A = Accumulate<T>;

  GradientStrip(const KernelContext& context, const Tensor& gradient, int64_t outputs,
                int64_t strip)
      : gradient_(gradient), strip_(strip), buffer_(context, strip * outputs) {}

  // Calls body(data, row, part) for parts of the strip, counted from its first pixel. Row o of
  // `data` (rows are `row` elements apart) has the pixels of output o. `columns`: the columns of
  // the product that reads it. A product with several panels of columns reads the strip several
  // times; then a copy is faster, because outputs are far apart in the tensor.
  template <class Body>
  void by_output(const Tile& tile, const Range& pixels, const Range& outputs, int64_t columns,
                 const Body& body) const {
    const Range all{0, pixels.count()};
    if constexpr (std::is_same_v<T, A>) {
      const bool whole = gradient_.step[2] == tile.columns;
      if (gradient_.step[3] == 1 && columns <= kPanel<A> &&
          (whole || tile.columns >= 2 * kBlockRows)) {
        const A* first = gradient_.at(tile.image, outputs.first, tile.top, tile.left);
        if (whole) return body(first + pixels.first, gradient_.step[1], all);
        for_each_line(tile, pixels, [&](int64_t y, int64_t x, int64_t count, int64_t done) {
          body(gradient_.at(tile.image, outputs.first, y, x), gradient_.step[1],
               Range{done, done + count});
        });
        return;
      }
    }
    const Held wanted{tile, pixels, outputs};
    if (!(wanted == held_)) read_by_output(gradient_, tile, pixels, outputs, buffer_.get(), strip_);
    held_ = wanted;
    body(buffer_.get(), strip_, all);
  }

  // Row p holds the outputs of a pixel; without a copy if memory has this order.
  MatrixView<A> by_pixel(const Tile& tile, const Range& pixels, const Range& outputs) const {
    if constexpr (std::is_same_v<T, A>) {
      const bool even = gradient_.step[2] == tile.columns * gradient_.step[3];
      if (even && gradient_.step[1] == 1) {
        const T* first = gradient_.at(tile.image, outputs.first, tile.top, tile.left);
        return {first + pixels.first * gradient_.step[3], gradient_.step[3]};
      }
    }
    held_ = {};
    read_by_pixel(gradient_, tile, pixels, outputs, buffer_.get());
    return {buffer_.get(), outputs.count()};
  }

 private:
  StridedView<const T> gradient_;
  int64_t strip_;
  Buffer<A> buffer_;
  // The contents of the buffer, by output: the gradient of W often needs what that of X has read.
  struct Held {
    Tile tile{-1, 0, 0, 0, 0};
    Range pixels{0, 0}, outputs{0, 0};
    bool operator==(const Held& other) const {
      return tile == other.tile && pixels == other.pixels && outputs == other.outputs;
    }
  };
  mutable Held held_;
};

}  // namespace myops::deform::MYOPS_ISA
