// The inner loops: weighted sums of whole rows, and of elements within a row.
//
// Every sum is w0 * x0 + w1 * x1 + ..., from the left, in Accumulate<T>, rounded once when it is
// stored. That order is the same in each of the loops below.
#pragma once

#include <algorithm>
#include <cstdint>

#include "myops/dtype.h"
#include "taps.h"

namespace myops::resize {

// Rounds a sum to an element.
template <class T, class Wide>
inline T to_element(Wide value) {
  if constexpr (std::is_same_v<T, uint8_t>) {
    // Between 0 and 255, adding 2^23 leaves no room for a fraction: rounds half to even, and
    // vectorises, unlike std::nearbyint. NaN becomes 0.
    constexpr Wide kNoFraction = 8388608;
    const Wide low = value > 0 ? value : Wide(0);
    const Wide inside = low < 255 ? low : Wide(255);
    return static_cast<uint8_t>(static_cast<int32_t>((inside + kNoFraction) - kNoFraction));
  } else {
    return static_cast<T>(value);
  }
}

template <class Wide, class T>
void widen(const T* source, int64_t count, Wide* target) {
  for (int64_t i = 0; i < count; ++i) target[i] = static_cast<Wide>(source[i]);
}

// target[i] = sum over k of weights[k] * rows[k][i].
template <class Wide, class T>
void combine_rows(const Wide* const* rows, const Wide* weights, int64_t taps, int64_t count,
                  T* __restrict target) {
  if (taps == 2) {
    const Wide *a = rows[0], *b = rows[1];
    const Wide wa = weights[0], wb = weights[1];
    for (int64_t i = 0; i < count; ++i) target[i] = to_element<T>(wa * a[i] + wb * b[i]);
    return;
  }
  if (taps == 4) {
    const Wide *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3];
    const Wide wa = weights[0], wb = weights[1], wc = weights[2], wd = weights[3];
    for (int64_t i = 0; i < count; ++i) {
      target[i] = to_element<T>(wa * a[i] + wb * b[i] + wc * c[i] + wd * d[i]);
    }
    return;
  }
  constexpr int64_t kChunk = 256;
  Wide sums[kChunk];
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t size = std::min(kChunk, count - begin);
    for (int64_t i = 0; i < size; ++i) sums[i] = taps > 0 ? weights[0] * rows[0][begin + i] : 0;
    for (int64_t k = 1; k < taps; ++k) {
      const Wide weight = weights[k];
      const Wide* row = rows[k] + begin;
      for (int64_t i = 0; i < size; ++i) sums[i] += weight * row[i];
    }
    for (int64_t i = 0; i < size; ++i) target[begin + i] = to_element<T>(sums[i]);
  }
}

// target[o - begin] = the sum over the taps of output o, for the fastest axis in memory.
// `source` begins with the element of index `low`.
template <class Wide, class T>
void gather(const Taps<Wide>& taps, int64_t begin, int64_t end, int64_t low,
            const Wide* __restrict source, T* __restrict target) {
  const int64_t* index = taps.index.data() + taps.first[begin];
  const Wide* weight = taps.weight.data() + taps.first[begin];
  const int64_t count = end - begin;
  if (taps.width == 1) {
    for (int64_t o = 0; o < count; ++o)
      target[o] = to_element<T>(weight[o] * source[index[o] - low]);
  } else if (taps.width == 2) {
    for (int64_t o = 0; o < count; ++o, index += 2, weight += 2) {
      target[o] =
          to_element<T>(weight[0] * source[index[0] - low] + weight[1] * source[index[1] - low]);
    }
  } else if (taps.width == 4) {
    for (int64_t o = 0; o < count; ++o, index += 4, weight += 4) {
      target[o] =
          to_element<T>(weight[0] * source[index[0] - low] + weight[1] * source[index[1] - low] +
                        weight[2] * source[index[2] - low] + weight[3] * source[index[3] - low]);
    }
  } else {
    for (int64_t o = 0; o < count; ++o) {
      const int64_t size = taps.count(begin + o);
      Wide sum = size > 0 ? weight[0] * source[index[0] - low] : Wide(0);
      for (int64_t k = 1; k < size; ++k) sum += weight[k] * source[index[k] - low];
      target[o] = to_element<T>(sum);
      index += size;
      weight += size;
    }
  }
}

}  // namespace myops::resize
