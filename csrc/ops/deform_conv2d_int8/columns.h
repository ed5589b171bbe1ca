// The samples of a strip of pixels for one block of taps and channels, as factors of the product.
#pragma once

#include "window.h"

namespace myops::deform::MYOPS_ISA {

// Weights of corners as fractions of 15 bits, in planes as those of Taps.
class CornerFractions {
 public:
  CornerFractions(const KernelContext& context, const Taps<float>& taps, float mask_limit)
      : taps_(taps), inverse_(1 / mask_limit), values_(context, 4 * taps.plane()) {}

  const int16_t* get() const { return values_.get(); }

  void compute(int64_t taps, int64_t pixels) const {
    using V = Vector<float>;
    for (int64_t k = 0; k < taps; ++k) {
      for (int64_t p = 0; p < pixels; p += kLanes<float>) {
        const int64_t entry = k * taps_.stride() + p;
        const Point<V> point = taps_.point<V>(entry);
        V mask = point.mask * inverse_;
        mask = mask == mask ? mask : V{};  // NaN samples 0
        mask = mask < 1 ? mask : V{} + 1;
        mask = (mask > -1 ? mask : V{} - 1) * 32768;
        const CornerWeights<V> weights = value_weights(point);
        for (int j = 0; j < 4; ++j) {
          store(values_.get() + j * taps_.plane() + entry, fraction(weights.at[j] * mask));
        }
      }
    }
  }

 private:
  // Rounded to nearest, half to even: the sum has no bits left for a fraction.
  static Lanes<int16_t, kLanes<float>> fraction(const Vector<float>& value) {
    const Vector<float> most = Vector<float>{} + 32767;
    const Vector<float> below = value < most ? value : most;
    const auto inside = (below > -most ? below : -most) + 12582912;  // 1.5 * 2^23
    return __builtin_convertvector((Index<float>)inside - 0x4b400000,
                                   Lanes<int16_t, kLanes<float>>);
  }

  const Taps<float>& taps_;
  float inverse_;
  Buffer<int16_t> values_;
};

// One vector of channels.
template <class V>
MYOPS_INLINE void blend_bytes(const int16_t* const (&corners)[4], const V (&weights)[4], int64_t c,
                              int16_t low, Factor* to) {
  V value = times_fraction(load_as<V>(corners[0] + c), weights[0]);
  for (int j = 1; j < 4; ++j) value += times_fraction(load_as<V>(corners[j] + c), weights[j]);
  store_factors((value + (1 << (kShift - 1))) >> kShift, low, to + c);
}

// kCount: the number of channels if it is a compile-time constant, or 0.
template <int64_t kCount>
void sample_bytes(const Taps<float>& taps, const int16_t* fractions,
                  const WindowView<const int16_t>& window, int64_t count, int16_t low,
                  const Entries& part, int64_t first, int64_t row, Factor* out) {
  constexpr int64_t L = kLanes<int16_t>;
  using V = Vector<int16_t>;
  using Half = Lanes<int16_t, (L < kGroup ? L : kGroup)>;
  const int64_t channels = kCount ? kCount : count, plane = taps.plane();
  for (int64_t k = part.first_tap; k < part.last_tap; ++k) {
    const int32_t* index = taps.index() + k * taps.stride();
    const int16_t* w = fractions + k * taps.stride();
    Factor* to = out + (part.first - first) * row + k * channels;
    for (int64_t p = part.first; p < part.last; ++p, to += row) {
      if (index[p] < 0) {
        for (int64_t c = 0; c < channels; c += kGroup) {
          for (int64_t i = 0; i < kGroup; i += sizeof(Half) / 2) {
            store_factors(Half{}, low, to + c + i);
          }
        }
        continue;
      }
      const Corners<const int16_t> corners(window, index[p]);
      V weights[4];
      for (int j = 0; j < 4; ++j) weights[j] = w[p + j * plane] - V{};
      int64_t c = 0;
      for (; c + L <= channels; c += L) blend_bytes(corners.at, weights, c, low, to);
      if (L > kGroup && c < channels) {
        Half halves[4];
        for (int j = 0; j < 4; ++j) halves[j] = w[p + j * plane] - Half{};
        blend_bytes(corners.at, halves, c, low, to);
      }
    }
  }
}

class ByteColumns {
 public:
  ByteColumns(const KernelContext& context, const ConvShape& conv, const ByteImage& image,
              const Positions<float>& positions, float mask_limit, int64_t pixels)
      : blocking_(conv),
        low_(image.low()),
        taps_(context, conv, positions, blocking_.taps, pixels, true),
        fractions_(context, taps_, mask_limit),
        window_(context, conv, image),
        strip_(strip_pixels(blocking_)),
        buffer_(context, blocking_.taps * blocking_.channels * strip_) {}

  int64_t strip() const { return strip_; }  // pixels that are sampled at a time

  void place(const ConvShape& conv, const Tile& tile, const BytePart& part) {
    tile_ = tile;
    taps_.place(conv, tile, part.offset_group, part.taps);
    fractions_.compute(part.taps.count(), tile.pixels());
    box_ = taps_.extent();
  }

  // Reads the window of a block of channels for the whole tile, if it fits.
  void hold(const BytePart& part) {
    held_ = box_.pixels() * part.padded() <= window_.capacity();
    if (held_) read(part, {0, part.taps.count(), 0, tile_.pixels()}, box_);
  }

  // Row p - pixels.first has part.row() factors: the samples of pixel p, [tap][channel].
  const Factor* sample(const BytePart& part, const Range& pixels) {
    const Entries strip{0, part.taps.count(), pixels.first, pixels.last};
    if (held_) {
      sample(part, strip, pixels.first);
    } else {
      sample_parts(part, strip, pixels.first);
    }
    return buffer_.get();
  }

 private:
  static int64_t strip_pixels(const ByteBlocking& blocking) {
    const int64_t row = blocking.taps * blocking.channels * static_cast<int64_t>(sizeof(Factor));
    return std::max(kByteStrip / row / kBlockRows * kBlockRows, kBlockRows);
  }
  // Samples parts of a strip that fit a window each; see Columns::sample_parts().
  void sample_parts(const BytePart& part, const Entries& entries, int64_t first) {
    const Box box = taps_.extent(entries);
    const int64_t count = entries.taps() * entries.pixels();
    const int64_t most = window_.capacity() / part.padded();
    const bool near = box.pixels() <= kFarApart * count;
    if (near ? box.pixels() <= most : 4 * count <= most) {
      near ? read(part, entries, box) : read_cells(part, entries);
      return sample(part, entries, first);
    }
    for (const Entries& half : entries.halves()) sample_parts(part, half, first);
  }
  void read_cells(const BytePart& part, const Entries& entries) {
    view_ = window_.read_cells(tile_.image, part.channels, taps_, entries);
    taps_.number(entries, part.padded());
  }
  void read(const BytePart& part, const Entries& entries, const Box& box) {
    if (box.pixels() > 0) view_ = window_.read(tile_.image, part.channels, box);
    taps_.locate(entries, box, part.padded());
  }
  void sample(const BytePart& part, const Entries& entries, int64_t first) {
    const int64_t count = part.padded();
    const auto by = [&](auto constant) {
      sample_bytes<constant>(taps_, fractions_.get(), view_, count, low_, entries, first,
                             part.row(), buffer_.get());
    };
    if (count == 64) return by(std::integral_constant<int64_t, 64>());
    if (count == 32) return by(std::integral_constant<int64_t, 32>());
    if (count == 16) return by(std::integral_constant<int64_t, 16>());
    by(std::integral_constant<int64_t, 0>());
  }

  ByteBlocking blocking_;
  int16_t low_;
  Taps<float> taps_;
  CornerFractions fractions_;
  ByteWindow window_;
  WindowView<const int16_t> view_;
  Tile tile_{};
  Box box_{};
  bool held_ = false;
  int64_t strip_;
  Buffer<Factor> buffer_;
};

}  // namespace myops::deform::MYOPS_ISA
