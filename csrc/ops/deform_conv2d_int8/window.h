// Windows of X for deform_conv2d_int8: the channels of a pixel contiguous, as 128 (x - zero_point).
#pragma once

#include "../deform_conv2d/image.h"
#include "blocking.h"

namespace myops::deform::MYOPS_ISA {

// X, whose bytes are read as unsigned: those of int8 have their highest bit flipped.
struct ByteImage {
  StridedView<const uint8_t> view;
  uint8_t flip;
  int16_t zero;  // the zero point of the flipped bytes, from 0 to 255

  ByteImage(const Tensor& X, const Tensor& zero_point)
      : view(X), flip(X.dtype == DType::Int8 ? 128 : 0) {
    const uint8_t given = zero_point.present ? *zero_point.as<uint8_t>() : 0;
    zero = static_cast<uint8_t>(given ^ flip);
  }
  // The least integer of a sample; the largest is 255 more.
  int16_t low() const { return static_cast<int16_t>(-zero); }
};

class ByteWindow {
 public:
  ByteWindow(const KernelContext& context, const ConvShape& conv, const ByteImage& image)
      : image_(image),
        height_(conv.height),
        width_(conv.width),
        capacity_(capacity(conv)),
        window_(context, capacity_) {}

  int64_t capacity() const { return capacity_; }  // in elements

  // Copies channels of the pixels of `box`, which must fit. Valid until the next call.
  WindowView<const int16_t> read(int64_t image, const Range& channels, const Box& box) const {
    const int64_t pixel = round_up(channels.count(), kGroup);
    const WindowView<const int16_t> view{window_.get(), box.columns() * pixel, pixel};
    const Box inside{std::max<int64_t>(box.top, 0), std::min(box.bottom, height_),
                     std::max<int64_t>(box.left, 0), std::min(box.right, width_)};
    clear_border(box, inside, view);
    if (inside.top >= inside.bottom || inside.left >= inside.right) return view;
    int16_t* to =
        window_.get() + (inside.top - box.top) * view.row + (inside.left - box.left) * pixel;
    const bool planes = image_.view.step[1] != 1 || image_.view.step[3] == 1;
    for (int64_t c = channels.first; c < channels.last; c += kGroup, to += kGroup) {
      const int64_t count = std::min(kGroup, channels.last - c);
      for (int64_t y = inside.top; y < inside.bottom; ++y) {
        const uint8_t* from = image_.view.at(image, c, y, inside.left);
        int16_t* line = to + (y - inside.top) * view.row;
        if (planes) {
          copy_planes(from, count, inside.columns(), line, pixel);
        } else {
          copy_pixels(from, count, inside.columns(), line, pixel);
        }
      }
    }
    return view;
  }

  // Copies the cells of entries that are far apart; see Source::read_cells().
  WindowView<const int16_t> read_cells(int64_t image, const Range& channels,
                                       const Taps<float>& taps, const Entries& entries) const {
    const int64_t pixel = round_up(channels.count(), kGroup);
    const WindowView<const int16_t> view{window_.get(),
                                         2 * entries.taps() * entries.pixels() * pixel, pixel};
    int16_t* to = window_.get();
    for (int64_t k = entries.first_tap; k < entries.last_tap; ++k) {
      for (int64_t p = entries.first; p < entries.last; ++p, to += 2 * pixel) {
        const int64_t entry = k * taps.stride() + p;
        if (taps.missed(entry)) continue;
        for (int64_t corner = 0; corner < 4; ++corner) {
          copy_any(image, channels, taps.row(entry) + corner / 2, taps.column(entry) + corner % 2,
                   to + corner / 2 * view.row + corner % 2 * pixel);
        }
      }
    }
    return view;
  }

 private:
  static int64_t capacity(const ConvShape& conv) {
    const double all = static_cast<double>(conv.height + 2) * static_cast<double>(conv.width + 2) *
                       static_cast<double>(ByteBlocking(conv).channels);
    return static_cast<int64_t>(std::min(all, static_cast<double>(kWindow<int16_t>)));
  }

  void clear_border(const Box& box, const Box& inside,
                    const WindowView<const int16_t>& view) const {
    int16_t* to = window_.get();
    for (int64_t y = box.top; y < box.bottom; ++y, to += view.row) {
      if (y < inside.top || y >= inside.bottom || inside.left >= inside.right) {
        std::fill_n(to, view.row, int16_t{});
        continue;
      }
      std::fill_n(to, (inside.left - box.left) * view.pixel, int16_t{});
      std::fill_n(to + (inside.right - box.left) * view.pixel,
                  (box.right - inside.right) * view.pixel, int16_t{});
    }
  }

  // A pixel that may be next to X.
  void copy_any(int64_t image, const Range& channels, int64_t y, int64_t x, int16_t* to) const {
    const int64_t step = image_.view.step[1];
    const bool inside = y >= 0 && y < height_ && x >= 0 && x < width_;
    for (int64_t c = channels.first; c < channels.last; c += kGroup, to += kGroup) {
      if (!inside) {
        std::fill_n(to, kGroup, int16_t{});
        continue;
      }
      const int64_t count = std::min(kGroup, channels.last - c);
      const uint8_t* const from = image_.view.at(image, c, y, x);
      if (step == 1) {
        copy_pixels(from, count, 1, to, kGroup);
        continue;
      }
      uint8_t bytes[kGroup];
      std::fill_n(bytes, kGroup, static_cast<uint8_t>(image_.zero ^ image_.flip));
      for (int64_t i = 0; i < count; ++i) bytes[i] = from[i * step];
      store_widened(load_as<Bytes>(bytes) ^ image_.flip, image_.zero, kShift, to);
    }
  }

  // Up to 16 bytes, and nothing behind the tensor; what is not read is zero_point.
  Bytes bytes_at(const uint8_t* from, int64_t count) const {
    Bytes bytes;
    if (count == kGroup || image_.view.end - from >= kGroup) {
      bytes = load_as<Bytes>(from);
    } else {
      uint8_t part[kGroup] = {};
      std::copy_n(from, count, part);
      bytes = load_as<Bytes>(part);
    }
    return bytes ^ image_.flip;
  }

  // Up to 16 channels of a line of pixels. Channels behind `count` become 0.
  void copy_planes(const uint8_t* from, int64_t count, int64_t columns, int16_t* to,
                   int64_t pixel) const {
    const Bytes none = Bytes{} + static_cast<uint8_t>(image_.zero);
    for (int64_t x = 0; x < columns; x += kGroup) {
      if (columns - x < kGroup && columns >= kGroup) x = columns - kGroup;
      const int64_t some = std::min(kGroup, columns - x);
      Bytes rows[kGroup];
#pragma GCC unroll 16
      for (int64_t c = 0; c < kGroup; ++c) {
        rows[c] = c < count ? bytes_at(from + c * image_.view.step[1] + x, some) : none;
      }
      transpose_bytes(rows);
      if (some == kGroup) {
#pragma GCC unroll 16
        for (int64_t i = 0; i < kGroup; ++i) {
          store_widened(rows[i], image_.zero, kShift, to + (x + i) * pixel);
        }
      } else {
        for (int64_t i = 0; i < some; ++i) {
          store_widened(rows[i], image_.zero, kShift, to + (x + i) * pixel);
        }
      }
    }
  }

  // The same where the channels of a pixel are contiguous.
  void copy_pixels(const uint8_t* from, int64_t count, int64_t columns, int16_t* to,
                   int64_t pixel) const {
    Bytes lanes;
    for (int64_t i = 0; i < kGroup; ++i) lanes[i] = static_cast<uint8_t>(i);
    const auto used = lanes < static_cast<uint8_t>(count);
    const Bytes none = Bytes{} + static_cast<uint8_t>(image_.zero);
    for (int64_t x = 0; x < columns; ++x, from += image_.view.step[3], to += pixel) {
      const Bytes bytes = bytes_at(from, count);
      store_widened(used ? bytes : none, image_.zero, kShift, to);
    }
  }

  const ByteImage& image_;
  int64_t height_, width_, capacity_;
  Buffer<int16_t> window_;
};

}  // namespace myops::deform::MYOPS_ISA
