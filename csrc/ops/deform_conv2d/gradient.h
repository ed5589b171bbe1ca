// The gradient of Y in the layout that products read, in the accumulation type.
#pragma once

#include "transpose.h"

namespace myops::deform::MYOPS_ISA {

// Row o - outputs.first of `to` holds pixels of output o, rows `to_row` elements apart.
template <class T, class A>
void read_by_output(const StridedView<const T>& gradient, const Tile& tile, const Range& pixels,
                    const Range& outputs, A* to, int64_t to_row) {
  for_each_line(tile, pixels, [&](int64_t row, int64_t column, int64_t count, int64_t done) {
    const T* from = gradient.at(tile.image, outputs.first, row, column);
    if (gradient.step[1] == 1) {
      transpose_copy(from, gradient.step[3], to + done, to_row, count, outputs.count());
      return;
    }
    for (int64_t o = 0; o < outputs.count(); ++o, from += gradient.step[1]) {
      widen(from, gradient.step[3], count, to + o * to_row + done);
    }
  });
}

// The gradient of Y for a whole tile, if several offset groups read it. The row length is not a
// power of two, because a cache can hold only few rows at such distances.
template <class T>
class GradientTile {
 public:
  using A = Accumulate<T>;

  static bool fits(int64_t outputs, int64_t pixels) { return outputs * row_of(pixels) <= kSums<A>; }
  GradientTile(const KernelContext& context, const Tensor& gradient, int64_t outputs,
               int64_t pixels)
      : gradient_(gradient), row_(row_of(pixels)), buffer_(context, outputs * row_) {}

  // Reads `outputs` into `row` and the rows that follow.
  void read(const Tile& tile, const Range& outputs, int64_t row) const {
    read_by_output(gradient_, tile, {0, tile.pixels()}, outputs, buffer_.get() + row * row_, row_);
  }
  const A* at(int64_t row, int64_t pixel) const { return buffer_.get() + row * row_ + pixel; }
  int64_t row() const { return row_; }

 private:
  static int64_t row_of(int64_t pixels) { return round_up(pixels, kLanes<A>) + kLanes<A>; }

  StridedView<const T> gradient_;
  int64_t row_;
  Buffer<A> buffer_;
};

// The gradient of Y for a strip of pixels, read from memory or from a GradientTile if there is one.
template <class T>
class GradientStrip {
 public:
  using A = Accumulate<T>;

  // Row 0 of `tile` belongs to output 0.
  GradientStrip(const KernelContext& context, const Tensor& gradient, int64_t outputs,
                int64_t strip, const GradientTile<T>* tile = nullptr)
      : gradient_(gradient),
        strip_(strip),
        buffer_(context, tile ? 0 : strip * outputs),
        tile_(tile) {}

  // Row o holds the pixels of an output, row() elements apart.
  const A* by_output(const Tile& tile, const Range& pixels, const Range& outputs) const {
    if (tile_) return tile_->at(outputs.first, pixels.first);
    read_by_output(gradient_, tile, pixels, outputs, buffer_.get(), strip_);
    return buffer_.get();
  }
  int64_t row() const { return tile_ ? tile_->row() : strip_; }

  // Row p holds the outputs of a pixel; without a copy if memory has this order.
  MatrixView<A> by_pixel(const Tile& tile, const Range& pixels, const Range& outputs) const {
    if constexpr (std::is_same_v<T, A>) {
      const bool even = gradient_.step[2] == tile.columns * gradient_.step[3];
      if (even && gradient_.step[1] == 1) {
        const T* first = gradient_.at(tile.image, outputs.first, tile.top, tile.left);
        return {first + pixels.first * gradient_.step[3], gradient_.step[3]};
      }
    }
    for_each_line(tile, pixels, [&](int64_t row, int64_t column, int64_t count, int64_t done) {
      const T* from = gradient_.at(tile.image, outputs.first, row, column);
      A* to = buffer_.get() + done * outputs.count();
      if (gradient_.step[3] == 1) {
        transpose_copy(from, gradient_.step[1], to, outputs.count(), outputs.count(), count);
        return;
      }
      for (int64_t c = 0; c < count; ++c, from += gradient_.step[3], to += outputs.count()) {
        widen(from, gradient_.step[1], outputs.count(), to);
      }
    });
    return {buffer_.get(), outputs.count()};
  }

 private:
  StridedView<const T> gradient_;
  int64_t strip_;
  Buffer<A> buffer_;
  const GradientTile<T>* tile_;
};

}  // namespace myops::deform::MYOPS_ISA
