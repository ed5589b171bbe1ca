// Kernel "few_pixels": images of one channel, or with two to four channels innermost, of whose
// pixels the result reads few, because it is smaller in both axes and has much fewer columns. A
// vector contains the channels of a pixel. Other kernels combine whole source rows first, and with
// them the pixels that nothing reads.
//
// The sums are those of slab_sum.h, in the same order: rows first.
#pragma once

#include "../plan/plan.h"
#include "pixels.h"

namespace myops::resize::MYOPS_ISA {

template <class T, class Wide>
class FewPixels {
  static constexpr int64_t kChannels = 4;
  static constexpr bool kNarrow = !std::is_same_v<T, Wide>;
  static constexpr int64_t kReach = Pixels<Wide>::template kReach<T>;

 public:
  static constexpr bool kSupported = kPermutes<Wide>;

  static bool supports(const Plan<Wide>& plan) {
    if (!kSupported || plan.levels.size() != 2) return false;
    const Level<Wide>&rows = plan.levels.front(), &columns = plan.levels.back();
    const int64_t width = columns.taps.width;
    const int64_t channels = columns.in_volume;
    if (!rows.first || rows.blocks != 1 || channels > kChannels) return false;
    if (rows.taps.width != width || (kNarrow && channels == 1)) return false;
    // (Measured: where others begin to lose. They take longer with fewer elements in a vector.)
    constexpr bool kFloat = sizeof(Wide) == sizeof(float);
    const int64_t input = columns.taps.input, output = columns.taps.output;
    if (width == 2) {
      const int64_t least = channels == 1   ? (kFloat ? output <= 3 ? 30 : 60 : 40)
                            : channels == 2 ? (kFloat ? 34 : 30)
                                            : (kFloat && channels == 3 ? 30 : 24);
      return 10 * input >= least * output;
    }
    if (channels == 1) return false;
    return width == 4 && input * channels >= (kFloat ? 16 : 12) * output;
  }

  FewPixels(const Plan<Wide>& plan, const T* source)
      : rows_(plan.levels.front()),
        columns_(plan.levels.back()),
        end_(source + plan.outer * rows_.taps.input * rows_.in_volume) {}

  // The rows [begin, end) of an image.
  void run(int64_t begin, int64_t end, const T* image, T* target) const {
    using Pixel = typename Pixels<Wide>::Pixel;
    if (columns_.in_volume == 1) return fill<2, Wide>(begin, end, image, target);
    columns_.taps.width == 2 ? fill<2, Pixel>(begin, end, image, target)
                             : fill<4, Pixel>(begin, end, image, target);
  }

 private:
  // Pixel: a number, or a vector of the channels.
  template <int kTaps, class Pixel>
  void fill(int64_t begin, int64_t end, const T* image, T* target) const {
    for (int64_t o = begin; o < end; ++o, target += rows_.out_volume) {
      const int64_t* index = rows_.taps.index.data() + o * kTaps;
      const T* rows[kTaps];
      bool inside = true;  // a vector can be loaded from any pixel of these rows
      for (int k = 0; k < kTaps; ++k) {
        rows[k] = image + index[k] * rows_.in_volume;
        inside = inside && end_ - rows[k] >= rows_.in_volume + kReach;
      }
      const Wide* weights = rows_.taps.weight.data() + o * kTaps;
      inside ? row<kTaps, true, Pixel>(rows, weights, target)
             : row<kTaps, false, Pixel>(rows, weights, target);
    }
  }

  // kInside: whether a vector may be loaded from there.
  template <bool kInside, class Pixel>
  MYOPS_INLINE void load_pixel(const T* at, Pixel& pixel) const {
    if constexpr (std::is_same_v<Pixel, Wide>) {
      pixel = static_cast<Wide>(*at);
    } else if constexpr (kInside) {
      pixel = Pixels<Wide>::pixel_at(at);
    } else {
      T channels[kReach] = {};
      std::copy(at, at + columns_.in_volume, channels);
      pixel = Pixels<Wide>::pixel_at(channels);
    }
  }

  template <int kTaps, bool kInside, class Pixel>
  MYOPS_NOINLINE void row(const T* const* given, const Wide* weights, T* target) const {
    const int64_t channels = std::is_same_v<Pixel, Wide> ? 1 : columns_.in_volume;
    const int64_t outputs = columns_.taps.output;
    const int64_t* index = columns_.taps.index.data();
    const Wide* weight = columns_.taps.weight.data();
    const T* rows[kTaps];
    std::copy(given, given + kTaps, rows);
    for (int64_t o = 0; o < outputs; ++o, index += kTaps, weight += kTaps, target += channels) {
      Pixel total{};
#pragma GCC unroll 4
      for (int k = 0; k < kTaps; ++k) {
        const int64_t at = index[k] * channels;
        Pixel sum{};
#pragma GCC unroll 4
        for (int i = 0; i < kTaps; ++i) {
          Pixel pixel;
          load_pixel<kInside>(rows[i] + at, pixel);
          sum = i == 0 ? weights[0] * pixel : fma(weights[i] - Pixel{}, pixel, sum);
        }
        total = k == 0 ? weight[0] * sum : fma(weight[k] - Pixel{}, sum, total);
      }
      if constexpr (std::is_same_v<Pixel, Wide>) {
        *target = to_element<T>(total);
      } else if ((outputs - o) * channels >= kReach) {  // what follows overwrites what is too much
        Pixels<Wide>::store_pixel(target, total);
      } else {
        for (int64_t i = 0; i < channels; ++i) target[i] = to_element<T>(total[i]);
      }
    }
  }

  const Level<Wide>&rows_, &columns_;
  const T* end_;  // of the source
};

}  // namespace myops::resize::MYOPS_ISA
