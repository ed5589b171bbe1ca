// Rows of one to four channels for "few_pixels": each from a few source rows, which are combined
// first, and two or four taps along them.
//
// A vector of the result consists of some pixels. Two taps of one of them lie side by side, so they
// are one load of two, four or eight elements, and two vectors contain those of all. These are
// combined as they are; then one permutation makes a vector of the first taps, another one of the
// second taps.
//
// The sums are those of slab_sum.h, in the same order.
#pragma once

#include <array>
#include <limits>

#include "slab_sum.h"

namespace myops::resize::MYOPS_ISA {

template <class Wide>
class PixelPairs {
  static constexpr int64_t L = kLanes<Wide>;
  using V = Vector<Wide>;

 public:
  // (Four pairs of float64 would be loads of whole cache lines, each of which is in two of them.)
  static constexpr int64_t kChannels = !kPermutes<Wide> ? 0 : sizeof(Wide) == sizeof(float) ? 4 : 2;

  // kTaps source rows of each of kImages images, and their weights, for each of kRows rows of the
  // result. Of several at once, the tables are read once.
  template <int kTaps, size_t kImages, size_t kRows, class T>
  struct Rows {
    std::array<const T*, kRows * kImages * kTaps> sources;
    std::array<Wide, kRows * kTaps> weights;
    std::array<Wide, kImages> image_weights;
    std::array<T*, kRows> targets;
  };

  static bool supports(const TapTable<Wide>& taps, int64_t channels) {
    const int64_t elements = taps.input * channels;
    if (channels > kChannels || (taps.width != 2 && taps.width != 4) ||
        elements < load_of(channels) || elements > std::numeric_limits<int32_t>::max()) {
      return false;
    }
    for (size_t k = 0; k < taps.index.size(); k += 2) {
      if (std::abs(taps.index[k] - taps.index[k + 1]) > 1) return false;
    }
    return true;
  }

  static double bytes(const TapTable<Wide>& taps, int64_t channels) {
    return static_cast<double>(pairs_of(taps, channels)) * (sizeof(Pair) + sizeof(Picks));
  }

  PixelPairs(const TapTable<Wide>& taps, int64_t channels)
      : outputs_(taps.output), channels_(channels), load_(load_of(channels)) {
    pairs_.reserve(static_cast<size_t>(pairs_of(taps, channels)));
    for (int64_t o = 0; o < outputs_; o += block()) {
      for (int64_t k = 0; k < taps.width; k += 2) add_pair(taps, o, k);
    }
  }

  template <int kTaps, size_t kImages, size_t kRows, class T>
  void sum(const Rows<kTaps, kImages, kRows, T>& rows) const {
    if (load_ == 2) return sum_of<2>(rows);
    if (load_ == 4) return sum_of<4>(rows);
    if constexpr (kChannels == 4) sum_of<8>(rows);
  }

 private:
  // The elements that are loaded for two taps.
  static int64_t load_of(int64_t channels) { return channels <= 2 ? 2 * channels : 8; }
  int64_t block() const { return 2 * L / load_; }  // pixels in a vector of the result
  static int64_t pairs_of(const TapTable<Wide>& taps, int64_t channels) {
    const int64_t block = 2 * L / load_of(channels);
    return (taps.output + block - 1) / block * (taps.width / 2);
  }

  template <int64_t kLoad, int kTaps, size_t kImages, size_t kRows, class T>
  MYOPS_NOINLINE void sum_of(const Rows<kTaps, kImages, kRows, T>& given) const {
    const Rows<kTaps, kImages, kRows, T> rows = given;
    const Pair* pairs = pairs_.data();
    int64_t left = outputs_ * channels_;
    for (int64_t at = 0; left > 0; pairs += kTaps / 2) {
      const int64_t count = std::min(left, 2 * L / kLoad * channels_);
#pragma GCC unroll 4
      for (size_t row = 0; row < kRows; ++row) {
        V total{};
#pragma GCC unroll 2
        for (size_t image = 0; image < kImages; ++image) {
          const V sum = columns<kLoad, kTaps>(pairs, &rows.sources[(row * kImages + image) * kTaps],
                                              &rows.weights[row * kTaps]);
          if constexpr (kImages == 1) {
            total = sum;
          } else {
            const V weight = broadcast(rows.image_weights[image]);
            total = image == 0 ? weight * sum : fma(weight, sum, total);
          }
        }
        T* const to = rows.targets[row] + at;
        if (left >= L) {  // what is too much is overwritten by the next block
          store_narrow<Wide>(to, total);
        } else {
          store_part<Wide>(to, total, count);
        }
      }
      at += count, left -= count;
    }
  }

  // Two taps of a block.
  struct Pair {
    Wide weights[2][L];
    int32_t at[L];  // of the load for each pixel: elements from the beginning of a row
    size_t picks;
  };
  // Where each of the two is in the vectors with the loads.
  struct Picks {
    int32_t lanes[2][L];
    bool operator==(const Picks& other) const {
      return std::memcmp(lanes, other.lanes, sizeof lanes) == 0;
    }
  };

  // Of the outputs from `first` on, taps k and k + 1.
  void add_pair(const TapTable<Wide>& taps, int64_t first, int64_t k) {
    Pair pair{};
    Picks picks{};
    // Nothing is loaded from behind a row, where the memory may end.
    const int64_t last = taps.input * channels_ - load_;
    for (int64_t lane = 0; lane < L; ++lane) {
      const int64_t pixel = std::min(lane / channels_, block() - 1);
      const int64_t tap = std::min(first + pixel, outputs_ - 1) * taps.width + k;
      const int64_t* index = taps.index.data() + tap;
      const int64_t at = std::min(std::min(index[0], index[1]) * channels_, last);
      pair.at[pixel] = static_cast<int32_t>(at);
      for (int64_t i = 0; i < 2; ++i) {
        const int64_t element = index[i] * channels_ + lane % channels_;
        picks.lanes[i][lane] = static_cast<int32_t>(pixel * load_ + element - at);
        pair.weights[i][lane] = taps.weight[tap + i];
      }
    }
    // Nearly all are equal.
    const auto known = std::find(picks_.begin(), picks_.end(), picks);
    pair.picks = static_cast<size_t>(known - picks_.begin());
    if (known == picks_.end()) picks_.push_back(picks);
    pairs_.push_back(pair);
  }

  // A block of combined rows.
  template <int64_t kLoad, int kTaps, class T>
  MYOPS_INLINE V columns(const Pair* pairs, const T* const* sources, const Wide* weights) const {
    V sum{};
#pragma GCC unroll 2
    for (int k = 0; k < kTaps / 2; ++k) {
      const Pair& pair = pairs[k];
      V low{}, high{};
#pragma GCC unroll 4
      for (int i = 0; i < kTaps; ++i) {
        const V x = load_runs<Wide, kLoad>(sources[i], pair.at);
        const V y = load_runs<Wide, kLoad>(sources[i], pair.at + L / kLoad);
        const V weight = broadcast(weights[i]);
        low = i == 0 ? weight * x : fma(weight, x, low);
        high = i == 0 ? weight * y : fma(weight, y, high);
      }
      const Picks& picks = picks_[pair.picks];
      const V first = permute(low, high, load_as<Index<Wide>>(picks.lanes[0]));
      const V second = permute(low, high, load_as<Index<Wide>>(picks.lanes[1]));
      sum = k == 0 ? load(pair.weights[0]) * first : fma(load(pair.weights[0]), first, sum);
      sum = fma(load(pair.weights[1]), second, sum);
    }
    return sum;
  }

  const int64_t outputs_, channels_, load_;
  std::vector<Pair> pairs_;  // [block][two taps]
  std::vector<Picks> picks_;
};

}  // namespace myops::resize::MYOPS_ISA
