// Kernel "pixels": rows of a result with two to four channels innermost that read few pixels of a
// source row, far apart from each other, because the axis shrinks. They are computed one by one, in
// vectors of the channels of a pixel. Other kernels load or transpose all elements of a source row.
//
// The sums are those of slab_sum.h, in the same order.
#pragma once

#include "slab_sum.h"

namespace myops::resize::MYOPS_ISA {

template <class Wide>
class Pixels {
  static constexpr int64_t kChannels = 4;

 public:
  using Pixel = Lanes<Wide, kChannels>;

  // How many elements are loaded for a pixel, or stored, those of the pixels behind it included.
  template <class T>
  static constexpr int64_t kReach = std::is_same_v<T, Wide> ? kChannels : kLanes<Wide>;

  template <class From>
  static MYOPS_INLINE Pixel pixel_at(const From* at) {
    if constexpr (std::is_same_v<From, Wide>) {
      return load_as<Pixel>(at);
    } else {
      return first_four(load_wide<Wide>(at));
    }
  }

  template <class Out>
  static MYOPS_INLINE void store_pixel(Out* target, Pixel pixel) {
    if constexpr (std::is_same_v<Out, Wide>) {
      store(target, pixel);
    } else {
      store_narrow<Wide>(target, from_four(pixel));
    }
  }

  // `widens`: elements are converted when they are loaded.
  static bool supports(const TapTable<Wide>& taps, int64_t channels, bool widens) {
    if (!kPermutes<Wide> || channels < 2 || channels > kChannels ||
        (taps.width != 2 && taps.width != 4) || taps.output * channels < 2 * kLanes<Wide>) {
      return false;
    }
    // By how much the axis must shrink. (Measured: where others begin to lose.)
    constexpr bool kDouble = sizeof(Wide) == sizeof(double);
    constexpr double kCubic[3] = {3, kDouble ? 1.3 : 2.4, kDouble ? 0.9 : 1.9};
    constexpr double kLinear[3] = {3, kDouble ? 1.7 : 3, kDouble ? 0.9 : 2.4};
    const double least = widens ? 3 : (taps.width == 4 ? kCubic : kLinear)[channels - 2];
    return static_cast<double>(taps.input) >= least * static_cast<double>(taps.output);
  }

  Pixels(const TapTable<Wide>& taps, int64_t channels) : taps_(taps), channels_(channels) {
    const auto reads_to = [&](int64_t output) {
      const int64_t* index = taps.index.data() + output * taps.width;
      return *std::max_element(index, index + taps.width);
    };
    for (const bool narrow : {false, true}) {
      const int64_t end = (taps.high + 1) * channels - (narrow ? kLanes<Wide> : kChannels);
      int64_t& count = inside_[narrow] = 0;
      while (count < taps.output && reads_to(count) * channels <= end) ++count;
    }
  }

  // Outputs [begin, end) of some rows, whose results are `pitch` elements apart. Of several at
  // once, indices and weights are read once.
  template <class From, class Out>
  void rows(int64_t count, int64_t begin, int64_t end, const From* const* sources, Out* target,
            int64_t pitch) const {
    for (; count >= kTogether; count -= kTogether, sources += kTogether) {
      some<kTogether>(begin, end, sources, target, pitch);
      target += kTogether * pitch;
    }
    for (; count > 0; --count, target += pitch) some<1>(begin, end, sources++, target, pitch);
  }
  static constexpr int64_t kTogether = 4;

 private:
  template <int64_t kRows, class From, class Out>
  void some(int64_t begin, int64_t end, const From* const* sources, Out* target,
            int64_t pitch) const {
    taps_.width == 2 ? few<2, kRows>(begin, end, sources, target, pitch)
                     : few<4, kRows>(begin, end, sources, target, pitch);
  }

  template <int kTaps, int64_t kRows, class From, class Out>
  MYOPS_NOINLINE void few(int64_t begin, int64_t end, const From* const* sources, Out* target,
                          int64_t pitch) const {
    const From* source[kRows];
    std::copy_n(sources, kRows, source);
    const int64_t* index = taps_.index.data() + begin * kTaps;
    const Wide* weight = taps_.weight.data() + begin * kTaps;
    const int64_t channels = channels_;
    // Whole vectors are loaded and stored; what follows overwrites what is stored too much.
    const int64_t behind = (kReach<Out> + channels - 1) / channels;
    const int64_t whole = std::min(inside_[!std::is_same_v<From, Wide>], end - behind + 1);
    int64_t o = begin;
    for (; o < whole; ++o, index += kTaps, weight += kTaps, target += channels) {
      int64_t at[kTaps];
      Pixel factors[kTaps];
#pragma GCC unroll 4
      for (int k = 0; k < kTaps; ++k) {
        at[k] = index[k] * channels;
        factors[k] = weight[k] - Pixel{};
      }
#pragma GCC unroll 4
      for (int64_t row = 0; row < kRows; ++row) {
        Pixel sum{};
#pragma GCC unroll 4
        for (int k = 0; k < kTaps; ++k) {
          const Pixel pixel = pixel_at(source[row] + at[k]);
          sum = k == 0 ? factors[0] * pixel : fma(factors[k], pixel, sum);
        }
        store_pixel(target + row * pitch, sum);
      }
    }
    for (; o < end; ++o, index += kTaps, weight += kTaps, target += channels) {
      for (int64_t i = 0; i < kRows * channels; ++i) {
        const int64_t row = i / channels, channel = i % channels;
        const From* const from = source[row] + channel;
        target[row * pitch + channel] = to_element<Out>(weighted<Wide>(
            kTaps, [&](int64_t k) { return weight[k]; },
            [&](int64_t k) { return static_cast<Wide>(from[index[k] * channels]); }));
      }
    }
  }

  const TapTable<Wide>& taps_;
  int64_t channels_;
  // How many of the first outputs load no vector beyond what is read of a row; [1]: narrow
  // elements.
  int64_t inside_[2];
};

}  // namespace myops::resize::MYOPS_ISA
