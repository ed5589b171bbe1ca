// The inner loops: weighted sums of whole rows, and of elements within a row.
//
// Every sum runs in Accumulate<T> and is rounded once when it is stored. Its order is the same in
// each of the loops below, so that it does not show which of them a memory layout takes: up to
// four terms from the left, fma(w3, x3, fma(w2, x2, fma(w1, x1, w0 * x0))); more terms in four
// such chains, k mod 4, which are added as (c0 + c1) + (c2 + c3).
#pragma once

#include "myops/dtype.h"
#include "myops/simd.h"
#include "taps.h"

namespace myops::resize::MYOPS_ISA {

using namespace ::myops::MYOPS_ISA;

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
  int64_t i = 0;
  for (; i + kLanes<Wide> <= count; i += kLanes<Wide>) {
    store(target + i, load_wide<Wide>(source + i));
  }
  for (; i < count; ++i) target[i] = static_cast<Wide>(source[i]);
}

// A copy past the caches.
template <class T>
void stream_copy(const T* source, int64_t count, T* target) {
  constexpr int64_t L = kLanes<T>;
  int64_t i = 0;
  const auto ahead = static_cast<int64_t>(reinterpret_cast<uintptr_t>(target) / sizeof(T) % L);
  for (; i < count && (ahead + i) % L != 0; ++i) target[i] = source[i];
  for (; i + L <= count; i += L) stream(target + i, load(source + i));
  for (; i < count; ++i) target[i] = source[i];
}

// The sum over k of weight(k) * value(k), for numbers or vectors.
template <class V, class Weight, class Value>
inline V weighted(int64_t taps, const Weight& weight, const Value& value) {
  if (taps == 0) return V{};
  V chains[4] = {weight(0) * value(0)};
  if (taps <= 4) {
    for (int64_t k = 1; k < taps; ++k) chains[0] = fma(weight(k), value(k), chains[0]);
    return chains[0];
  }
  for (int64_t k = 1; k < 4; ++k) chains[k] = weight(k) * value(k);
  for (int64_t k = 4; k < taps; ++k) chains[k & 3] = fma(weight(k), value(k), chains[k & 3]);
  return (chains[0] + chains[2]) + (chains[1] + chains[3]);
}

// What is written: memory that is used again at once, a part of the result, or a part of a result
// that goes past the caches.
enum class Write : uint8_t { Scratch, Result, Streamed };

// target[i] = sum over k of weights[k] * rows[k][begin + i]; kTaps is their number, or -1: `taps`.
template <int kTaps, class Wide>
inline void combine(const Wide* const* rows, const Wide* weights, int64_t taps, int64_t begin,
                    int64_t count, Write write, Wide* __restrict target) {
  constexpr int64_t L = kLanes<Wide>;
  const int64_t size = kTaps < 0 ? taps : kTaps;
  const auto one = [&](int64_t i) {
    target[i] = weighted<Wide>(
        size, [&](int64_t k) { return weights[k]; }, [&](int64_t k) { return rows[k][begin + i]; });
  };
  const auto several = [&](int64_t i) {
    return weighted<Vector<Wide>>(
        size, [&](int64_t k) { return broadcast(weights[k]); },
        [&](int64_t k) { return load(rows[k] + begin + i); });
  };
  int64_t i = 0;
  if (write == Write::Streamed) {
    const int64_t offset = reinterpret_cast<uintptr_t>(target) / sizeof(Wide) % L;
    for (; i < count && (offset + i) % L != 0; ++i) one(i);
    for (; i + L <= count; i += L) stream(target + i, several(i));
  } else if (write == Write::Result) {
    for (; i + L <= count; i += L) {
      expect_store(target + i);
      store(target + i, several(i));
    }
  } else {
    for (; i + L <= count; i += L) store(target + i, several(i));
  }
  for (; i < count; ++i) one(i);
}

template <class Wide>
inline void combine_any(const Wide* const* rows, const Wide* weights, int64_t taps, int64_t begin,
                        int64_t count, Write write, Wide* target) {
  switch (taps) {
    case 1:
      return combine<1>(rows, weights, taps, begin, count, write, target);
    case 2:
      return combine<2>(rows, weights, taps, begin, count, write, target);
    case 4:
      return combine<4>(rows, weights, taps, begin, count, write, target);
    default:
      return combine<-1>(rows, weights, taps, begin, count, write, target);
  }
}

// target[i] = sum over k of weights[k] * rows[k][i].
template <class Wide, class T>
void combine_rows(const Wide* const* rows, const Wide* weights, int64_t taps, int64_t count,
                  Write write, T* target) {
  if constexpr (std::is_same_v<Wide, T>) {
    combine_any(rows, weights, taps, 0, count, write, target);
  } else {
    constexpr int64_t kChunk = 512;
    Wide sums[kChunk];
    for (int64_t begin = 0; begin < count; begin += kChunk) {
      const int64_t size = std::min(kChunk, count - begin);
      combine_any(rows, weights, taps, begin, size, Write::Scratch, sums);
      int64_t i = 0;
      for (; i + kLanes<Wide> <= size; i += kLanes<Wide>) {
        store_narrow<Wide>(target + begin + i, load(sums + i));
      }
      for (; i < size; ++i) target[begin + i] = to_element<T>(sums[i]);
    }
  }
}

}  // namespace myops::resize::MYOPS_ISA
