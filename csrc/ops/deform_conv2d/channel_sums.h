// The kernel of channel_sums (channel_sums.cpp): the sum over all but the channels.
//
// The pixels of an image are numbered row by row. Of 1024 at a time, pixel p is added to partial
// sum p % 16; then the 16 are added pairwise, and these sums and the images one after another, in
// float64. So bits depend on neither threads nor vectors nor the layout.
#pragma once

#include <algorithm>

#include "product.h"

namespace myops::deform::MYOPS_ISA {

inline constexpr int64_t kParts = 16;       // partial sums
inline constexpr int64_t kTogether = 1024;  // pixels whose partial sums are added pairwise
inline constexpr int64_t kBlock =
    16;  // channels that are summed together, where they are innermost

// One channel of an image, or kBlock at most that lie side by side.
template <class T>
struct Plane {
  const T* data;
  int64_t rows, length, row_step, step;
  int64_t pixels() const { return rows * length; }
  // The plane is one row without gaps.
  bool dense() const { return step == 1 && (rows == 1 || row_step == length); }
  const T* at(int64_t pixel) const {
    return data + pixel / length * row_step + pixel % length * step;
  }
};

// Adds the sums of `kChannels` at most to `sums`.
template <int64_t kChannels, class T>
void add_plane(const Plane<T>& plane, int64_t channels, double* sums) {
  using A = Accumulate<T>;
  constexpr int64_t L = kLanes<A>;
  if (plane.pixels() == 1) {
    for (int64_t c = 0; c < channels; ++c)
      sums[c] += static_cast<double>(static_cast<A>(plane.data[c]));
    return;
  }
  for (int64_t first = 0; first < plane.pixels(); first += kTogether) {
    const int64_t count = std::min(kTogether, plane.pixels() - first);
    A parts[kParts][kChannels] = {};
    int64_t p = 0;
    if (kChannels == 1 && plane.dense()) {
      const T* from = plane.data + first;
      Vector<A> sums_of[kParts / L] = {};
      for (; p + kParts <= count; p += kParts) {
        for (int64_t i = 0; i < kParts / L; ++i) sums_of[i] += load_wide<A>(from + p + i * L);
      }
      for (int64_t i = 0; i < kParts / L; ++i) store(&parts[0][0] + i * L, sums_of[i]);
    }
    while (p < count) {
      const int64_t stop = std::min(count, p + plane.length - (first + p) % plane.length);
      for (const T* from = plane.at(first + p); p < stop; ++p, from += plane.step) {
        A* const to = parts[p % kParts];
        if (kChannels > 1 && channels == kChannels) {
          for (int64_t c = 0; c < kChannels; c += L) {
            store(to + c, load(to + c) + load_wide<A>(from + c));
          }
          continue;
        }
        for (int64_t c = 0; c < channels; ++c) to[c] += static_cast<A>(from[c]);
      }
    }
    for (int64_t half = kParts / 2; half > 0; half /= 2) {
      for (int64_t i = 0; i < std::min(half, count - half); ++i) {
        for (int64_t c = 0; c < channels; ++c) parts[i][c] += parts[i + half][c];
      }
    }
    for (int64_t c = 0; c < channels; ++c) sums[c] += static_cast<double>(parts[0][c]);
  }
}

template <class T>
void channel_sums_typed(KernelContext& context) {
  const Tensor& X = context.input(0);
  const int64_t images = X.shape[0], channels = X.shape[1];
  T* const target = context.output(0).as<T>();
  if (X.elements() == 0) {
    std::fill_n(target, channels, T{});
    return;
  }
  const bool innermost = X.strides[1] == 1 && (X.strides[3] != 1 || X.shape[3] == 1);
  const int64_t block = innermost ? kBlock : 1, blocks = (channels + block - 1) / block;
  const ScratchArray<double> sums = context.scratch_array<double>(images * channels, 0.0);
  const int64_t grain = (1 << 15) / (block * X.shape[2] * X.shape[3]) + 1;
  context.parallel_for(images * blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t image = piece / blocks, first = piece % blocks * block;
      const int64_t count = std::min(block, channels - first);
      double* to = sums.data() + image * channels + first;
      const Plane<T> plane{X.as<const T>() + image * X.strides[0] + first * X.strides[1],
                           X.shape[2], X.shape[3], X.strides[2], X.strides[3]};
      innermost ? add_plane<kBlock>(plane, count, to) : add_plane<1>(plane, 1, to);
    }
  });
  for (int64_t channel = 0; channel < channels; ++channel) {
    double sum = 0;
    for (int64_t image = 0; image < images; ++image) sum += sums[image * channels + channel];
    target[channel] = static_cast<T>(static_cast<Accumulate<T>>(sum));
  }
}

void channel_sums(KernelContext& context) {
  dispatch<Half, BFloat16, float, double>(context.input(0).dtype, [&](auto tag) {
    channel_sums_typed<typename decltype(tag)::type>(context);
  });
}

}  // namespace myops::deform::MYOPS_ISA
