// Kernel "few_pixels": images and volumes of whose pixels the result reads few, because it is
// smaller in all axes. A vector contains channels of a pixel, where they are innermost, or some
// pixels of one to four channels (pixel_pairs.h). Other kernels combine whole source rows first,
// and with them the pixels that nothing reads.
//
// The sums are those of slab_sum.h, in the same order: rows first, then columns, then the images of
// a volume.
#pragma once

#include <array>
#include <limits>

#include "../plan/plan.h"
#include "pixel_pairs.h"
#include "pixels.h"

namespace myops::resize::MYOPS_ISA {

// What is computed together: one channel of a pixel, in short rows; up to four; pairs of pixels; or
// a vector of channels. kReach: how many elements are loaded or stored at most.
template <class T, class Wide>
struct OneChannel {
  using Sum = Wide;
  static constexpr int64_t kReach = 1;
  static MYOPS_INLINE Sum load(const T* at) { return static_cast<Wide>(*at); }
  static MYOPS_INLINE void store(T* target, Sum sum) { *target = to_element<T>(sum); }
};

// Of three and four channels of float64.
template <class T, class Wide>
struct FourChannels {
  using Sum = typename Pixels<Wide>::Pixel;
  static constexpr int64_t kReach = 4;
  static MYOPS_INLINE Sum load(const T* at) { return Pixels<Wide>::pixel_at(at); }
  static MYOPS_INLINE void store(T* target, Sum sum) { Pixels<Wide>::store_pixel(target, sum); }
};

struct PairsOfPixels {};  // see pixel_pairs.h

template <class T, class Wide>
struct VectorOfChannels {
  using Sum = Vector<Wide>;
  static constexpr int64_t kReach = kLanes<Wide>;
  static MYOPS_INLINE Sum load(const T* at) { return load_wide<Wide>(at); }
  static MYOPS_INLINE void store(T* target, Sum sum) { store_narrow<Wide>(target, sum); }
};

template <class T, class Wide>
class FewPixels {
  static constexpr bool kNarrow = !std::is_same_v<T, Wide>;
  static constexpr bool kFloat = sizeof(Wide) == sizeof(float);

 public:
  static constexpr bool kSupported = kPermutes<Wide>;

  static bool supports(const Plan<Wide>& plan) {
    const size_t levels = plan.levels.size();
    if (!kSupported || levels < 2 || levels > 3) return false;
    const Level<Wide>&rows = plan.levels[levels - 2], &columns = plan.levels.back();
    const int64_t channels = columns.in_volume;
    if (!rows.first || rows.blocks != 1 || rows.taps.width != columns.taps.width) return false;
    if (uses_pairs(plan) && !PixelPairs<Wide>::supports(columns.taps, channels)) return false;
    const double shrinks = shrinks_by(columns.taps);
    if (shrinks < least(columns.taps, channels)) return false;
    if (levels == 2) return true;
    const Level<Wide>& images = plan.levels.front();
    if (images.first || images.blocks != 1 || images.taps.width != 2 || rows.taps.width != 2) {
      return false;
    }
    const bool few_together = channels == 1 || (kNarrow && channels <= 4);
    return few_together ? shrinks_by(images.taps) >= 2 && (shrinks >= 6 || !kFloat)
                        : shrinks_by(images.taps) >= 1.2;
  }

  // Whether "pixel_pairs" computes the rows.
  static bool uses_pairs(const Plan<Wide>& plan) {
    const Level<Wide>& columns = plan.levels.back();
    return columns.in_volume == 1 ? !is_short(columns.taps)
                                  : columns.in_volume <= PixelPairs<Wide>::kChannels;
  }

  // `pairs`: null unless uses_pairs().
  FewPixels(const Plan<Wide>& plan, const PixelPairs<Wide>* pairs, const T* source)
      : pairs_(pairs),
        first_(plan.levels.front()),
        rows_(plan.levels[plan.levels.size() - 2]),
        columns_(plan.levels.back()),
        end_(source + plan.outer * first_.taps.input * first_.in_volume) {}

  // The slabs [begin, end) of a tensor: rows of an image, or images of a volume.
  void run(int64_t begin, int64_t end, const T* tensor, T* target) const {
    const int64_t channels = columns_.in_volume;
    if constexpr (PixelPairs<Wide>::kChannels > 0) {
      if (pairs_ != nullptr) return run<PairsOfPixels>(begin, end, tensor, target);
    }
    if (channels == 1) return run<OneChannel<T, Wide>>(begin, end, tensor, target);
    if constexpr (!kFloat) {
      if (channels <= 4) return run<FourChannels<T, Wide>>(begin, end, tensor, target);
    }
    run<VectorOfChannels<T, Wide>>(begin, end, tensor, target);
  }

 private:
  static double shrinks_by(const TapTable<Wide>& taps) {
    return static_cast<double>(taps.input) / static_cast<double>(taps.output);
  }

  // Rows of one channel that would leave a large part of vectors empty.
  static bool is_short(const TapTable<Wide>& taps) { return taps.output < 2 * kLanes<Wide>; }

  // By how much columns must shrink. (Measured: where others begin to lose.)
  static double least(const TapTable<Wide>& taps, int64_t channels) {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    const bool linear = taps.width == 2;
    if (!linear && taps.width != 4) return kNever;
    if (channels == 1 && is_short(taps)) {
      return !linear || kNarrow ? kNever : !kFloat ? 4 : taps.output <= 3 ? 3 : 7;
    }
    if (channels <= 4) {
      if (kNarrow && !linear && taps.output * channels < 2 * kLanes<Wide>) return kNever;
      // [linear][channels - 1]
      constexpr double kOf[2][4] = {{kNever, 2.7, 5, 1.9}, {4, 2.4, 1.7, 1.3}};
      constexpr double kOfNarrow[2][4] = {{kNever, 3.5, 3.5, 2.6}, {6, 2.5, 2.2, 1.6}};
      constexpr double kOfDouble[2][4] = {{4.5, 2.5, 4, 3}, {2.7, 2.2, 2.4, 2.4}};
      return (!kFloat ? kOfDouble : kNarrow ? kOfNarrow : kOf)[linear][channels - 1];
    }
    // The part of the elements of vectors that are channels.
    constexpr int64_t L = kLanes<Wide>;
    const double filled =
        static_cast<double>(channels) / static_cast<double>((channels + L - 1) / L * L);
    const bool half = filled >= 0.5, full = filled > 0.75;
    if (linear) return !kNarrow ? (half ? 1 : 3) : full ? 2.2 : half ? 3 : 6;
    return full && !kNarrow ? 2.2 : half || !kNarrow ? 6 : kNever;
  }

  template <class Channels>
  void run(int64_t begin, int64_t end, const T* tensor, T* target) const {
    if (&first_ == &rows_) {
      if constexpr (!std::is_same_v<Channels, OneChannel<T, Wide>>) {
        if (columns_.taps.width == 4) return rows<4, Channels, 1>(begin, end, {tensor}, {}, target);
      }
      return rows<2, Channels, 1>(begin, end, {tensor}, {}, target);
    }
    for (int64_t o = begin; o < end; ++o, target += first_.out_volume) {
      const int64_t* index = first_.taps.index.data() + 2 * o;
      const Wide* weight = first_.taps.weight.data() + 2 * o;
      rows<2, Channels, 2>(
          0, rows_.taps.output,
          {tensor + index[0] * first_.in_volume, tensor + index[1] * first_.in_volume},
          {weight[0], weight[1]}, target);
    }
  }

  // Rows [begin, end) of a weighted sum of images, or of one image. Of two rows at once, the taps
  // of columns are read once.
  template <int kTaps, class Channels, size_t kImages>
  void rows(int64_t begin, int64_t end, std::array<const T*, kImages> images,
            std::array<Wide, 2> image_weights, T* target) const {
    constexpr bool kPairs = std::is_same_v<Channels, PairsOfPixels>;
    constexpr size_t kTogether = kTaps == 2 && (kImages == 1 || kPairs) ? 2 : 1;
    for (int64_t o = begin; o < end;) {
      const int64_t* index = rows_.taps.index.data() + o * kTaps;
      const size_t count = std::min(kTogether, static_cast<size_t>(end - o));
      std::array<const T*, kTogether * kImages * kTaps> from;
      for (size_t i = 0; i < from.size(); ++i) {
        const size_t each = kImages * kTaps, row = std::min(i / each, count - 1);
        from[i] = images[i % each / kTaps] + index[row * kTaps + i % kTaps] * rows_.in_volume;
      }
      const Wide* weights = rows_.taps.weight.data() + o * kTaps;
      const auto make = [&](auto together) {
        if constexpr (kPairs) {
          row_of_pairs<kTaps, kImages, together>(from.data(), weights, image_weights, target);
        } else {
          // Whether kReach elements can be loaded from any pixel of these rows.
          const bool inside = std::all_of(from.begin(), from.end(), [&](const T* row) {
            return end_ - row >= rows_.in_volume + Channels::kReach;
          });
          inside ? row<kTaps, Channels, true, kImages, together>(from.data(), weights,
                                                                 image_weights, target)
                 : row<kTaps, Channels, false, kImages, together>(from.data(), weights,
                                                                  image_weights, target);
        }
        return static_cast<int64_t>(together());
      };
      const int64_t made = count == kTogether ? make(std::integral_constant<size_t, kTogether>())
                                              : make(std::integral_constant<size_t, 1>());
      o += made;
      target += made * rows_.out_volume;
    }
  }

  template <int kTaps, size_t kImages, size_t kTogether>
  void row_of_pairs(const T* const* sources, const Wide* weights, std::array<Wide, 2> image_weights,
                    T* target) const {
    typename PixelPairs<Wide>::template Rows<kTaps, kImages, kTogether, T> rows{};
    std::copy_n(sources, rows.sources.size(), rows.sources.begin());
    std::copy_n(weights, rows.weights.size(), rows.weights.begin());
    std::copy_n(image_weights.begin(), kImages, rows.image_weights.begin());
    for (T*& to : rows.targets) to = target, target += rows_.out_volume;
    pairs_->sum(rows);
  }

  template <int kTaps, class Channels, bool kInside, size_t kImages, size_t kTogether>
  MYOPS_NOINLINE void row(const T* const* sources, const Wide* row_weights,
                          std::array<Wide, 2> image_weights, T* __restrict target) const {
    std::array<const T*, kTogether * kImages * kTaps> rows;
    std::copy_n(sources, rows.size(), rows.begin());
    std::array<Wide, kTogether * kTaps> weights;
    std::copy_n(row_weights, weights.size(), weights.begin());
    using Sum = typename Channels::Sum;
    constexpr int64_t kReach = Channels::kReach;
    const int64_t channels = kReach == 1 ? 1 : columns_.in_volume;
    const int64_t outputs = columns_.taps.output;
    const int64_t* index = columns_.taps.index.data();
    const Wide* weight = columns_.taps.weight.data();
    const auto load = [&](const T* at) MYOPS_INLINED {
      if constexpr (kInside) return Channels::load(at);
      T copy[kReach] = {};
      std::copy_n(at, std::min(kReach, channels), copy);
      return Channels::load(copy);
    };
    // Calls put(where, sum) for the current output of each row, from one channel on.
    const int64_t volume = rows_.out_volume;
    const auto each_row = [&](int64_t channel, const auto& put) MYOPS_INLINED {
      int64_t at[kTaps];
#pragma GCC unroll 4
      for (int k = 0; k < kTaps; ++k) at[k] = index[k] * channels + channel;
#pragma GCC unroll 4
      for (size_t row = 0; row < kTogether; ++row) {
        const Wide* const factors = weights.data() + row * kTaps;
        Sum sums[kImages];
#pragma GCC unroll 4
        for (size_t image = 0; image < kImages; ++image) {
          const T* const* const from = rows.data() + (row * kImages + image) * kTaps;
#pragma GCC unroll 4
          for (int k = 0; k < kTaps; ++k) {
            Sum sum{};
#pragma GCC unroll 4
            for (int i = 0; i < kTaps; ++i) {
              const Sum pixel = load(from[i] + at[k]);
              sum = i == 0 ? factors[0] * pixel : fma(factors[i] - Sum{}, pixel, sum);
            }
            sums[image] = k == 0 ? weight[0] * sum : fma(weight[k] - Sum{}, sum, sums[image]);
          }
        }
        Sum sum = sums[0];
        if constexpr (kImages > 1) {
          sum = fma(image_weights[1] - Sum{}, sums[1], image_weights[0] * sum);
        }
        put(target + static_cast<int64_t>(row) * volume + channel, sum);
      }
    };
    const auto store = [](T* to, Sum sum) MYOPS_INLINED { Channels::store(to, sum); };
    int64_t o = 0;
    const auto next = [&]() MYOPS_INLINED { index += kTaps, weight += kTaps, target += channels; };
    if (channels <= kReach) {
      // Of a whole vector, what is too much is overwritten by what follows.
      const int64_t whole = outputs - (kReach - 1) / channels;
      for (; o < whole; ++o, next()) each_row(0, store);
      for (; o < outputs; ++o, next()) {
        each_row(0, [&](T* to, Sum sum) MYOPS_INLINED {
          T copy[kReach];
          Channels::store(copy, sum);
          std::copy_n(copy, channels, to);
        });
      }
      return;
    }
    for (; o < outputs; ++o, next()) {
      for (int64_t channel = 0; channel < channels; channel += kReach) {
        channel = std::min(channel, channels - kReach);  // the last ones a second time
        each_row(channel, store);
      }
    }
  }

  const PixelPairs<Wide>* pairs_;
  const Level<Wide>&first_, &rows_, &columns_;
  const T* end_;  // of the source
};

}  // namespace myops::resize::MYOPS_ISA
