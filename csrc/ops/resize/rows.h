// The inner loops: weighted sums of whole rows, and of elements within a row.
//
// Every sum is computed in Accumulate<T> and rounded once when it is stored. Its order is the same
// in all loops below, so the result does not depend on the memory layout: up to four terms from the
// left, fma(w3, x3, fma(w2, x2, fma(w1, x1, w0 * x0))); more terms in four partial sums, k mod 4,
// that begin with 0 and are added as (c0 + c2) + (c1 + c3).
#pragma once

#include "myops/dtype.h"
#include "myops/simd.h"
#include "tap_table.h"

namespace myops::resize::MYOPS_ISA {

using namespace ::myops::MYOPS_ISA;

// Rounds a sum to an element.
template <class T, class Wide>
inline T to_element(Wide value) {
  if constexpr (std::is_same_v<T, uint8_t>) {
    // For 0 to 255, the sum with 2^23 has no bits left for a fraction: this rounds half to even and
    // is vectorised, unlike std::nearbyint. NaN becomes 0.
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
  int64_t i = 0;
  for (; i + kLanes<Wide> <= count; i += kLanes<Wide>) {
    store(target + i, load_wide<Wide>(source + i));
  }
  for (; i < count; ++i) target[i] = static_cast<Wide>(source[i]);
}

// A copy with non-temporal stores.
template <class T>
void stream_copy(const T* source, int64_t count, T* target) {
  constexpr int64_t L = kLanes<T>;
  const auto behind = static_cast<int64_t>(reinterpret_cast<uintptr_t>(target) / sizeof(T) % L);
  int64_t i = std::min((L - behind) % L, count);
  std::copy(source, source + i, target);
  for (; i + L <= count; i += L) stream(target + i, load(source + i));
  std::copy(source + i, source + count, target + i);
}

// The sum over k of weight(k) * value(k), for numbers or vectors.
template <class V, class Weight, class Value>
inline V weighted(int64_t taps, const Weight& weight, const Value& value) {
  if (taps == 0) return V{};
  if (taps <= 4) {
    V sum = weight(0) * value(0);
    for (int64_t k = 1; k < taps; ++k) sum = fma(weight(k), value(k), sum);
    return sum;
  }
  V partial_sums[4] = {};
  for (int64_t k = 0; k < taps; ++k)
    partial_sums[k & 3] = fma(weight(k), value(k), partial_sums[k & 3]);
  return (partial_sums[0] + partial_sums[2]) + (partial_sums[1] + partial_sums[3]);
}

// Rows of a result, each a weighted sum of other rows: row j has the taps [first[j], first[j + 1]),
// of which `rows` and `weights` hold those from first[0] on.
template <class Wide, class From = Wide>
struct Sums {
  int64_t count;
  const int64_t* first;
  const From* const* rows;
  const Wide* weights;
};

// kRows consecutive rows, each a sum of the same source rows with its own `taps` weights. kTaps is
// the number of taps, or -1: `taps`.
template <int kTaps, int kRows = 1, class From, class Wide, class T>
MYOPS_INLINE void combine_row(const From* const* rows, const Wide* weights, int64_t taps,
                              int64_t size, Stores stores, T* __restrict target) {
  constexpr int64_t L = kLanes<Wide>;
  constexpr int kKnown = kTaps < 0 ? 1 : kTaps;
  const int64_t count = kTaps < 0 ? taps : kTaps;
  const From* from[kKnown];
  Wide weight[kKnown * kRows];
  for (int64_t k = 0; k < kTaps; ++k) from[k] = rows[k];
  for (int64_t k = 0; k < kTaps * kRows; ++k) weight[k] = weights[k];
  const From* const* all_from = kTaps < 0 ? rows : from;
  const Wide* all_weights = kTaps < 0 ? weights : weight;
  const auto one = [&](int64_t i) {
    for (int64_t row = 0; row < kRows; ++row) {
      target[row * size + i] = to_element<T>(weighted<Wide>(
          count, [&](int64_t k) { return all_weights[row * count + k]; },
          [&](int64_t k) { return static_cast<Wide>(all_from[k][i]); }));
    }
  };
  const auto several = [&](int64_t i, const auto& put) {
    Vector<Wide> values[kKnown];
    for (int64_t k = 0; k < kTaps; ++k) values[k] = load_wide<Wide>(from[k] + i);
    for (int64_t row = 0; row < kRows; ++row) {
      put(target + row * size + i,
          weighted<Vector<Wide>>(
              count, [&](int64_t k) { return broadcast(all_weights[row * count + k]); },
              [&](int64_t k) { return kTaps < 0 ? load_wide<Wide>(all_from[k] + i) : values[k]; }));
    }
  };
  int64_t i = 0;
  if constexpr (std::is_same_v<Wide, T>) {
    if (stores == Stores::NonTemporal) {
      const int64_t offset = reinterpret_cast<uintptr_t>(target) / sizeof(T) % L;
      for (; i < size && (offset + i) % L != 0; ++i) one(i);
      for (; i + L <= size; i += L) {
        several(i, [](T* to, const Vector<Wide>& sum) { stream(to, sum); });
      }
    }
  }
  if (stores == Stores::Prefetch) {
    for (; i + L <= size; i += L) {
      several(i, [](T* to, const Vector<Wide>& sum) {
        prefetch_store(to);
        store_narrow<Wide>(to, sum);
      });
    }
  }
  for (; i + L <= size; i += L) {
    several(i, [](T* to, const Vector<Wide>& sum) { store_narrow<Wide>(to, sum); });
  }
  for (; i < size; ++i) one(i);
}

template <int kTaps, class Wide, class From, class T>
void combine_as(const Sums<Wide, From>& sums, int64_t size, Stores stores, T* target) {
  // Two long rows, whose sources come from the L2 cache, are made together if possible: a tenth
  // less time; shorter rows take longer that way. Non-temporal stores must be aligned in both.
  constexpr int64_t kLong = (16 << 10) / static_cast<int64_t>(sizeof(Wide));
  const bool pairs =
      kTaps == 4 && size > kLong && (stores != Stores::NonTemporal || size % kLanes<Wide> == 0);
  for (int64_t row = 0; row < sums.count; ++row, target += size) {
    const int64_t at = kTaps < 0 ? sums.first[row] - sums.first[0] : row * kTaps;
    const int64_t taps = sums.first[row + 1] - sums.first[row];
    const From* const* rows = sums.rows + at;
    const Wide* weights = sums.weights + at;
    if constexpr (kTaps == 4) {
      if (pairs && row + 1 < sums.count && std::equal(rows, rows + kTaps, rows + kTaps)) {
        combine_row<kTaps, 2>(rows, weights, taps, size, stores, target);
        ++row, target += size;
        continue;
      }
    }
    if (kTaps < 0 && taps == 8) {  // the gradient of cubic upscaling by 2, except at edges
      combine_row<8>(rows, weights, taps, size, stores, target);
    } else if (kTaps < 0 && taps == 4) {  // linear downscaling by 2 with antialias, except at edges
      combine_row<4>(rows, weights, taps, size, stores, target);
    } else {
      combine_row<kTaps>(rows, weights, taps, size, stores, target);
    }
  }
}

// `width`: the number of taps of every row, or 0 if they differ. The target's rows are consecutive.
template <class Wide, class From, class T>
void combine(int64_t width, const Sums<Wide, From>& sums, int64_t size, Stores stores, T* target) {
  switch (width) {
    case 1:
      return combine_as<1>(sums, size, stores, target);
    case 2:
      return combine_as<2>(sums, size, stores, target);
    case 4:
      return combine_as<4>(sums, size, stores, target);
    default:
      return combine_as<-1>(sums, size, stores, target);
  }
}

}  // namespace myops::resize::MYOPS_ISA
