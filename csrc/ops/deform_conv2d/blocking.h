// How the computation is divided into blocks. The division depends on shapes only, and each buffer
// is bounded whatever the tensors are: a task and its part of the call's shared buffers stay below
// 2 MiB together. Of cell_gradient.h up to InOrder::kAhead parts wait for their turn, with buffers
// of 1.3 MiB each. A gradient may hold an image and its sums, of 4 MiB each (held_image.h). Sums of
// 16-bit gradients of X have at most 32 MiB more, and at most twice the size of the gradients they
// become.
#pragma once

#include <algorithm>

#include "../../core/kernel_switch.h"
#include "conv_shape.h"
#include "product.h"

namespace myops::deform::MYOPS_ISA {

template <class A>
inline constexpr int64_t kPixels = 4096 / sizeof(A);  // output pixels of a tile
template <class A>
inline constexpr int64_t kEntries = 36864 / sizeof(A);  // pixels times taps of a tile
template <class A>
inline constexpr int64_t kSums = 524288 / sizeof(A);  // pixels times output channels of a tile
template <class A>
inline constexpr int64_t kOutputs = 1024 / sizeof(A);    // output channels of a product
inline constexpr int64_t kTaps = 16;                     // taps of a block
inline constexpr int64_t kChannels = 32;                 // channels of a block; see Blocking
inline constexpr int64_t kMostChannels = 3 * kChannels;  // even_channels() of gradient_channels()
template <class A>
inline constexpr int64_t kColumns = 32768 / sizeof(A);  // sampled at a time: stays in L1
template <class A>
inline constexpr int64_t kWindow = 458752 / sizeof(A);  // elements of an image window
template <class A>
inline constexpr int64_t kPacked =
    589824 / sizeof(A);  // elements of W that a gradient's task packs
template <class A>
inline constexpr int64_t kSlots = 442368 / sizeof(A);  // position gradients of tasks side by side
template <class A>
inline constexpr int64_t kTransposed =
    331776 / sizeof(A);  // offsets and masks of some offset groups
inline constexpr int64_t kFewChannels =
    8;  // of an offset group: windows of half the size, kTransposed applies
inline constexpr int64_t kShallow = 16;       // channels of an offset group: tiles with long rows
inline constexpr int64_t kRow = 128;          // pixels of these rows
inline constexpr int64_t kWholeVectors = 16;  // their number is a multiple, so that few are padded
inline constexpr int64_t kPrefetchPixels = 48;      // prefetch distance in pixels
inline constexpr size_t kSharedBytes = 640 * 1024;  // of one call, without the tasks' own buffers

// Samples in columns, and weights for products with them: bfloat16 where the instruction set
// multiplies pairs of it, otherwise numbers of the type of the sums. Both have several samples in a
// factor of a product if they are narrower.
template <class T>
using Sample =
    std::conditional_t<kBFloat16Products && std::is_same_v<T, BFloat16>, BFloat16, Accumulate<T>>;
template <class T>
using Factors = std::conditional_t<std::is_same_v<Sample<T>, BFloat16>, int32_t, Accumulate<T>>;
template <class T>
inline constexpr int64_t kFactorSamples = sizeof(Factors<T>) / sizeof(Sample<T>);

struct Range {
  int64_t first, last;
  int64_t count() const { return last - first; }
  bool operator==(const Range& other) const { return first == other.first && last == other.last; }
};

inline constexpr int64_t round_up(int64_t value, int64_t to) { return panels(value, to) * to; }

// `samples` of a sum, rounded up to whole factors.
template <class T>
inline int64_t depth_of(int64_t samples) {
  return round_up(samples, kFactorSamples<T>);
}

// Elements of a pixel with `channels`, rounded up to whole vectors of 16 bytes.
template <class A>
inline int64_t pixel_of(int64_t channels) {
  return round_up(channels, kQuad<A>);
}

// Elements from one pixel to the next where each pixel has values for every tap: [tap][channel]
// without gaps, because products would multiply the gaps too (with one channel, three of four
// columns). A tap is written in whole vectors of 16 bytes; the next tap overwrites the superfluous
// elements, and the row has space for those of the last tap. Rounded up to whole vectors, so that
// products need no special case for the last columns.
template <class A>
inline int64_t row_of(int64_t taps, int64_t channels) {
  return round_up((taps - 1) * channels + pixel_of<A>(channels), kHalf<A>);
}

struct Blocking {
  int64_t taps, channels;  // of a full block; channels share their offsets

  explicit Blocking(const ConvShape& conv)
      : taps(panels(conv.taps, panels(conv.taps, kTaps))),  // of blocks of about equal size
        channels(conv.depthwise() ? std::min(conv.channels_per_offset(), 2 * kChannels)
                                  : even_channels(conv.channels_per_offset(),
                                                  taps <= 9 ? kChannels : kChannels / 2)) {}

  // About `wanted`, such that all blocks have about equal size: a last block with few channels
  // would take as long as a whole one.
  static int64_t even_channels(int64_t length, int64_t wanted) {
    const int64_t blocks = std::max<int64_t>(panels(length - wanted / 2, wanted), 1);
    return std::min(length, round_up(panels(length, blocks), 8));
  }

  // The channels of a block of gradients: more with few taps, where products have few columns, and
  // in depthwise convolutions, where they have none (1x1, 64 channels: 0.5 to 0.9 of the time of
  // 16), but not so many that few threads have a block.
  static int64_t gradient_channels(const ConvShape& conv, int64_t taps) {
    constexpr int64_t kLeastBlocks = 4;
    int64_t channels = taps == 1                                      ? 2 * kChannels
                       : taps <= 4 || (conv.depthwise() && taps <= 9) ? kChannels
                                                                      : kChannels / 2;
    const int64_t length = conv.channels_per_offset(), units = conv.batch * conv.offset_groups;
    while (channels > kChannels / 2 && units * panels(length, channels) < kLeastBlocks) {
      channels /= 2;
    }
    return channels;
  }

  // For gradients: smaller blocks, so that W of a block for `outputs`, those of a group, fits a
  // task's buffer.
  template <class A>
  static Blocking of_gradients(const ConvShape& conv, int64_t outputs) {
    Blocking blocking(conv);
    const int64_t most = kPacked<A> / (blocking.taps * outputs) / 4 * 4;
    const int64_t length = conv.channels_per_offset();
    blocking.channels =
        std::clamp<int64_t>(most, 4, even_channels(length, gradient_channels(conv, blocking.taps)));
    blocking.channels = std::min(blocking.channels, length);
    return blocking;
  }
  template <class A>
  static Blocking of_gradients(const ConvShape& conv) {
    return of_gradients<A>(conv, conv.group_outputs());
  }

  // Pixels of a tile of gradients.
  template <class A>
  int64_t gradient_pixels() const {
    return std::min(kPixels<A>, kEntries<A> / taps);
  }

  // Pixels of a tile with `outputs` sums each: at least `least` if memory allows, and few enough
  // that several threads have tiles.
  template <class A>
  int64_t tile_pixels(const ConvShape& conv, int64_t outputs, int64_t least) const {
    const int64_t most = std::min({kPixels<A>, kEntries<A> / taps, kSums<A> / outputs});
    const double share = static_cast<double>(conv.batch) * static_cast<double>(conv.out_height) *
                         static_cast<double>(conv.out_width) / 4;
    return std::clamp(static_cast<int64_t>(std::min(share, 1e9)), std::min(most, least), most);
  }
  // Pixels that are sampled at a time into `size` elements, a multiple of the product's `rows`.
  template <class A>
  int64_t strip_pixels(int64_t size, int64_t rows = kBlockRows) const {
    const int64_t most = size / row_of<A>(taps, channels);
    return std::max(most / rows * rows, rows);
  }
};

// Scratch memory of one task or one call; none for a count of 0.
template <class A>
class Buffer {
 public:
  Buffer(const KernelContext& context, int64_t count) {
    if (count > 0) memory_.emplace(context.scratch(static_cast<size_t>(count) * sizeof(A)));
  }
  A* get() const { return memory_ ? memory_->template as<A>() : nullptr; }
  // Where vectors read more than was written: denormal numbers, as integers that the memory had
  // before, would make each product take a hundred nanoseconds.
  void zero(int64_t count) const { std::fill_n(get(), count, A{}); }

 private:
  std::optional<Scratch> memory_;
};

// Objects with scratch memory that tasks use one after another; there are as many as tasks that run
// at the same time.
template <class Object>
class Pool {
 public:
  template <class Make>
  std::unique_ptr<Object> take(const Make& make) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<Object> object = std::move(free_.back());
        free_.pop_back();
        return object;
      }
    }
    return std::unique_ptr<Object>(new Object(make()));
  }
  void give_back(std::unique_ptr<Object> object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(object));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Object>> free_;
};

// A rectangle of output pixels of one image; pixel (row, column) has index row * columns + column.
struct Tile {
  int64_t image, top, left, rows, columns;
  int64_t pixels() const { return rows * columns; }
  bool operator==(const Tile& other) const {  // both from one Tiling
    return image == other.image && top == other.top && left == other.left;
  }
};

// Near-square tiles, because the part of X that they sample is smallest, or longer ones where there
// are few rows. Short rows are not divided, so that the pixels of a tile are contiguous. No tile
// has more than `most_columns`. `row`: pixels of the rows where an offset group has few channels.
class Tiling {
 public:
  Tiling(const ConvShape& conv, int64_t pixels, int64_t most_columns = INT64_MAX,
         int64_t row = kRow)
      : height_(conv.out_height), width_(conv.out_width) {
    int64_t side = 1;
    while (4 * side * side <= pixels) side *= 2;
    // With few channels, most of the memory is that of offsets and masks, which are read in rows;
    // long rows are faster.
    if (conv.channels_per_offset() <= kShallow) side = std::max(side, row);
    if (height_ > 0) side = std::max(side, pixels / height_);
    columns_ = width_;
    if (width_ > std::max<int64_t>(2 * side, 128)) {
      columns_ = round_up(even(width_, side), kWholeVectors);
    }
    if (columns_ > most_columns) columns_ = even(width_, most_columns);
    rows_ = even(height_, std::max<int64_t>(pixels / columns_, 1));
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

// Calls body(y, x, count, done) for each part of a row of the result in `pixels` of a tile.
template <class Body>
void for_each_line(const Tile& tile, const Range& pixels, const Body& body) {
  for (int64_t p = pixels.first; p < pixels.last;) {
    const int64_t row = p / tile.columns, column = p % tile.columns;
    const int64_t count = std::min(tile.columns - column, pixels.last - p);
    body(tile.top + row, tile.left + column, count, p - pixels.first);
    p += count;
  }
}

// Prefetches some channels of a pixel that is read or written soon. In channels_last memory the
// pixels are far apart, and hardware prefetching stops at the end of a page.
template <class T>
MYOPS_INLINE void prefetch_channels(const T* pixel, int64_t channels) {
  for (int64_t c = 0; c < channels; c += 64 / static_cast<int64_t>(sizeof(T))) {
    __builtin_prefetch(pixel + c);
  }
  __builtin_prefetch(pixel + channels - 1);
}

// A strided view of a tensor of rank 4; converts to false if the tensor is absent.
template <class T>
struct StridedView {
  T *data = nullptr, *end = nullptr;  // end: behind the last element
  int64_t step[4] = {0, 0, 0, 0};
  bool present = false;

  StridedView() = default;
  explicit StridedView(const Tensor& tensor) : present(tensor.present) {
    if (!present) return;
    end = data = static_cast<T*>(tensor.data);
    if (tensor.elements() == 0) return;  // without steps: a null pointer has no offsets
    std::copy_n(tensor.strides.begin(), 4, step);
    for (size_t axis = 0; axis < 4; ++axis) end += (tensor.shape[axis] - 1) * step[axis];
    ++end;
  }
  explicit operator bool() const { return present; }
  // Whether the channels of a pixel are contiguous and the pixels are not.
  bool channels_last() const { return present && step[1] == 1 && step[3] != 1; }
  T* at(int64_t i, int64_t j, int64_t k, int64_t l) const {
    return data + i * step[0] + j * step[1] + k * step[2] + l * step[3];
  }
};

}  // namespace myops::deform::MYOPS_ISA
