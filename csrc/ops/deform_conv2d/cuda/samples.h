// Samples of X as a factor of a product in tiles: columns of parts (shape.h) times pixels.
#pragma once

#include "deform_conv2d/cuda/shape.h"
#include "deform_conv2d/cuda/tile_product.h"

namespace myops::deform_kernels {

// The elements of a pack.
template <class T, class A>
void convert_pack(const Words& loaded, A* values) {
  for (int v = 0; v < Pack<T>::kCount; ++v) values[v] = element_of<T, A>(loaded, v);
}

// Packs of a matrix in memory: element (d, i) is at d * stride + i, or at i * stride + d along the
// depth. `side`: how many i exist; what is outside is 0.
template <class T, class A, Along along>
struct PackLoader {
  static constexpr Along kAlong = along;
  using Loaded = Words;
  const T* from;
  int64_t stride;
  int32_t side;

  Words load(int32_t d, int32_t i, bool exists) const {
    if (!exists || i >= side) return {};
    return words_at(along == Along::Side ? from + d * stride + i : from + i * stride + d, 0);
  }
  void values(const Words& loaded, int32_t, int32_t, bool, A* values) const {
    convert_pack<T, A>(loaded, values);
  }
};

// What a block of threads shares. One sampler serves all channels of a part.
template <class A, class Factors>
struct SampledParts {
  static constexpr int kSamplers = 256;
  Factors factors[2];
  Taken<A> samplers[kSamplers];
};

// Pixel `at` of an image; one that does not exist samples 0.
template <class T, class A>
Taken<A> taken_if(const DeformInputs& inputs, const DeformShape& shape, int32_t weights,
                  const Pixel& at, int32_t part, int32_t tap) {
  if (at.n < shape.batch && at.pixel < shape.pixels) {
    return taken<T, A>(inputs, shape, weights, at.n, part, tap, at.pixel);
  }
  return {{kOutside, kOutside, kOutside, kOutside}, {}};
}

// The samples of columns and pixels: columns along the depth (forward), or along the side, in which
// case the depth are pixels (the gradient of W). `samplers` are [taps, pixels].
template <class T, class A, Along along>
struct SampleLoader {
  static constexpr Along kAlong = along;
  using Loaded = CornerPacks;
  const DeformShape* shape;
  const void* X;  // packed
  const Taken<A>* samplers;
  int32_t pixels;       // of `samplers`
  int32_t first, last;  // columns along the side: the first one of the tile, counted from the first
                        // tap of `samplers`, and the end of those that exist

  struct Place {
    const Taken<A>* sampler;
    int32_t channel;
    bool exists;
  };
  Place place(int32_t d, int32_t i, bool exists) const {
    const int32_t column = along == Along::Depth ? d : first + i;
    const int32_t pixel = along == Along::Depth ? i : d;
    if (along == Along::Side) exists = exists && column < last;
    const int32_t tap = divided(column, shape->by_channels);
    return {samplers + tap * pixels + pixel, column - tap * shape->padded_channels, exists};
  }

  CornerPacks load(int32_t d, int32_t i, bool exists) const {
    const Place at = place(d, i, exists);
    if (!at.exists) return {};
    return corner_packs(X, at.sampler->at, at.channel / Pack<T>::kCount);
  }
  void values(const CornerPacks& loaded, int32_t d, int32_t i, bool exists, A* values) const {
    const Place at = place(d, i, exists);
    if (!at.exists) {
      for (int v = 0; v < Pack<T>::kCount; ++v) values[v] = 0;
      return;
    }
    sample_packs<T, A>(loaded, at.sampler->weights, values);
    if (shape->channels == shape->padded_channels) return;
    for (int v = 0; v < Pack<T>::kCount; ++v) {
      if (at.channel + v >= shape->channels) values[v] = 0;  // not NaN where weights are not finite
    }
  }
};

}  // namespace myops::deform_kernels
