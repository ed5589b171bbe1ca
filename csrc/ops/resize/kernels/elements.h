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

// As load_part(), which reads elements that are narrower than Wide one by one without AVX-512: here
// words of them, that may overlap.
template <class Wide, class T>
MYOPS_INLINE Vector<Wide> load_few(const T* from, int64_t count) {
  constexpr int64_t kBytes = kLanes<Wide> * sizeof(T);
  if constexpr (sizeof(T) >= sizeof(Wide) || kBytes > 16 || MYOPS_VECTOR_BYTES == 64) {
    return load_part<Wide>(from, count);
  } else {
    const auto* at = reinterpret_cast<const unsigned char*>(from);
    const auto bytes = static_cast<size_t>(count) * sizeof(T);
    const auto word = [&](auto kind, size_t first) MYOPS_INLINED {
      std::memcpy(&kind, at + first, sizeof kind);
      return uint64_t{kind};
    };
    // The first and the last of them, moved to their places.
    const auto both = [&](auto kind) MYOPS_INLINED {
      return word(kind, 0) | word(kind, bytes - sizeof kind) << 8 * (bytes - sizeof kind);
    };
    uint64_t words[2] = {};
    if (bytes > 8) {
      words[0] = word(uint64_t{}, 0), words[1] = word(uint64_t{}, bytes - 8) >> 8 * (16 - bytes);
    } else if (bytes >= 4) {
      words[0] = both(uint32_t{});
    } else if (bytes >= 2) {
      words[0] = both(uint16_t{});
    } else if (bytes > 0) {
      words[0] = both(uint8_t{});
    }
    T part[kLanes<Wide>];
    std::memcpy(static_cast<void*>(part), words, sizeof part);
    return load_wide<Wide>(part);
  }
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
