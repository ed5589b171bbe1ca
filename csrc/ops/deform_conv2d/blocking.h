// How the work is cut. Shapes alone decide it, and every buffer that it sizes is bounded whatever
// the tensors are: a task and what its call shares with others stay below 2 MiB together.
#pragma once

#include <algorithm>

#include "problem.h"
#include "product.h"

namespace myops::deform::MYOPS_ISA {

// Limits that keep kPixels * kOutputs, kPixels * kColumns and kOutputs * kColumns elements
// in 256 KiB each, so that a task stays in a core's cache.
template <class A>
inline constexpr int64_t kPixels = 1024 / sizeof(A);  // output pixels of a tile
template <class A>
inline constexpr int64_t kOutputs = 1024 / sizeof(A);  // output channels of a product
inline constexpr int64_t kTaps = 16;                   // taps of a block
inline constexpr int64_t kChannels = 32;               // channels of a block; 16 above 8 taps
inline constexpr int64_t kColumns = 256;               // taps * channels of a block
template <class A>
inline constexpr int64_t kWindow = 131072 / sizeof(A);  // elements of an image window
inline constexpr size_t kSharedBytes = 896 * 1024;      // of one call, beside the tasks' own

struct Blocking {
  int64_t taps, channels;  // of a full block; channels share their offsets

  explicit Blocking(const Problem& problem)
      : taps(std::min(problem.taps, kTaps)),
        channels(std::min<int64_t>(problem.field_channels(),
                                   taps <= 8 ? kChannels : kColumns / kTaps)) {}
};

// Memory of one task or one call.
template <class A>
class Buffer {
 public:
  Buffer(const KernelContext& context, int64_t count)
      : memory_(context.scratch(static_cast<size_t>(std::max<int64_t>(count, 1)) * sizeof(A))) {}
  A* get() const { return memory_.template as<A>(); }
  void zero(int64_t count) const { std::fill_n(get(), count, A{}); }

 private:
  Scratch memory_;
};

// A rectangle of output pixels of one image; pixel (row, column) has index row * columns + column.
struct Tile {
  int64_t image, top, left, rows, columns;
  int64_t pixels() const { return rows * columns; }
};

// Near-square tiles: the part of X that a tile samples is then smallest.
class Tiling {
 public:
  Tiling(const Problem& problem, int64_t pixels)
      : height_(problem.out_height), width_(problem.out_width) {
    int64_t side = 1;
    while (4 * side * side <= pixels) side *= 2;
    columns_ = even(width_, side);
    rows_ = even(height_, pixels / columns_);
    columns_ = even(width_, pixels / rows_);
    across_ = panels(width_, columns_);
    count_ = across_ * panels(height_, rows_);
  }
  int64_t count() const { return count_; }             // of one image
  int64_t pixels() const { return rows_ * columns_; }  // of the largest tile
  Tile at(int64_t image, int64_t index) const {
    const int64_t top = index / across_ * rows_, left = index % across_ * columns_;
    return {image, top, left, std::min(rows_, height_ - top), std::min(columns_, width_ - left)};
  }

 private:
  // A length of at most `limit` that cuts `whole` into parts of nearly equal length.
  static int64_t even(int64_t whole, int64_t limit) { return panels(whole, panels(whole, limit)); }

  int64_t height_, width_, rows_, columns_, across_, count_;
};

// A tensor of rank 4 read or written by its strides; false when it was left out.
template <class T>
struct Field {
  T* data = nullptr;
  int64_t step[4] = {0, 0, 0, 0};
  bool present = false;

  Field() = default;
  explicit Field(const Tensor& tensor) : present(tensor.present) {
    if (!present) return;
    data = static_cast<T*>(tensor.data);
    std::copy_n(tensor.strides.begin(), 4, step);
  }
  explicit operator bool() const { return present; }
  T* at(int64_t i, int64_t j, int64_t k, int64_t l) const {
    return data + i * step[0] + j * step[1] + k * step[2] + l * step[3];
  }
};

}  // namespace myops::deform::MYOPS_ISA
