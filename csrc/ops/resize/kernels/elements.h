// Elements of a tensor, and their type in sums.
#pragma once

#include <algorithm>
#include <cstring>

#include "../plan/tap_table.h"
#include "myops/context.h"
#include "myops/dtype.h"
#include "myops/simd.h"

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

// A copy of a few elements, for which a call of memcpy() would cost more than the copy.
template <class T>
MYOPS_INLINE void copy_run(const T* from, int64_t count, T* to) {
  constexpr int64_t kRun = MYOPS_VECTOR_BYTES / sizeof(T);
  using V = Lanes<uint8_t, MYOPS_VECTOR_BYTES>;
  if (count < kRun) {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
    return;
  }
  for (int64_t i = 0; i + kRun <= count; i += kRun) store(to + i, load_as<V>(from + i));
  if (count % kRun != 0) store(to + count - kRun, load_as<V>(from + count - kRun));
}

// The first `count` elements of a vector, and others behind them if they lie before `end`: a whole
// vector is loaded faster.
template <class Wide, class T>
MYOPS_INLINE Vector<Wide> load_within(const T* from, int64_t count, const T* end) {
  return end - from >= kLanes<Wide> ? load_wide<Wide>(from) : load_part<Wide>(from, count);
}

// A copy with non-temporal stores.
template <class T>
void stream_copy(const T* source, int64_t count, T* target) {
  constexpr int64_t L = kLanes<uint8_t>;
  const auto* from = reinterpret_cast<const uint8_t*>(source);
  auto* to = reinterpret_cast<uint8_t*>(target);
  const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
  const auto behind = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % L);
  int64_t i = std::min((L - behind) % L, bytes);
  std::copy(from, from + i, to);
  for (; i + L <= bytes; i += L) stream(to + i, load(from + i));
  std::copy(from + i, from + bytes, to + i);
}

}  // namespace myops::resize::MYOPS_ISA
