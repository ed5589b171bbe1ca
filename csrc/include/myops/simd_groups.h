// Loads and stores of groups of lanes at separate addresses, and of the first lanes of a vector;
// part of simd.h.
#pragma once

#include "myops/simd.h"

namespace myops::MYOPS_ISA {

// Lanes kGroup * kSide to kGroup * kSide + kSide - 1.
template <int64_t kSide, int kGroup, class A>
MYOPS_INLINE Lanes<A, kSide> group_of(const Vector<A>& vector) {
  if constexpr (kSide == kLanes<A>) {
    return vector;
#if MYOPS_VECTOR_BYTES == 64
  } else if constexpr (kSide * sizeof(A) == 32) {
    return (Lanes<A, kSide>)_mm512_extractf64x4_pd((__m512d)vector, kGroup);
  } else if constexpr (kSide * sizeof(A) == 16) {
    return (Lanes<A, kSide>)_mm512_extractf32x4_ps((__m512)vector, kGroup);
#elif MYOPS_VECTOR_BYTES == 32
  } else if constexpr (kSide * sizeof(A) == 16) {
    return (Lanes<A, kSide>)_mm256_extractf128_ps((__m256)vector, kGroup);
#endif
  } else {
    Lanes<A, kSide> parts[kLanes<A> / kSide];
    std::memcpy(parts, &vector, sizeof vector);
    return parts[kGroup];
  }
}

#if MYOPS_VECTOR_BYTES >= 32
template <class A>
MYOPS_INLINE __m256 two_quads(const A* from, int64_t step) {
  using Quad = Lanes<A, kQuad<A>>;
  return _mm256_insertf128_ps(_mm256_castps128_ps256((__m128)load_as<Quad>(from)),
                              (__m128)load_as<Quad>(from + step), 1);
}
#endif
// Loads group g of kSide lanes from from + g * step.
template <int64_t kSide, class A>
MYOPS_INLINE Vector<A> load_groups(const A* from, int64_t step) {
  using Part = Lanes<A, kSide>;
  if constexpr (kSide == kLanes<A>) {
    return load(from);
#if MYOPS_VECTOR_BYTES == 64
  } else if constexpr (kSide * sizeof(A) == 32) {
    return (Vector<A>)_mm512_insertf64x4(_mm512_castpd256_pd512((__m256d)load_as<Part>(from)),
                                         (__m256d)load_as<Part>(from + step), 1);
  } else if constexpr (kSide * sizeof(A) == 16) {
    return (Vector<A>)_mm512_insertf32x8(_mm512_castps256_ps512(two_quads(from, step)),
                                         two_quads(from + 2 * step, step), 1);
#elif MYOPS_VECTOR_BYTES == 32
  } else if constexpr (kSide * sizeof(A) == 16) {
    return (Vector<A>)two_quads(from, step);
#endif
  } else {
    Part parts[kLanes<A> / kSide];
    for (auto& part : parts) {
      part = load_as<Part>(from);
      from += step;
    }
    Vector<A> vector;
    std::memcpy(&vector, parts, sizeof vector);
    return vector;
  }
}

// As load_groups(), with conversion, as load_wide().
template <int64_t kSide, class A, class T>
MYOPS_INLINE Vector<A> load_groups_wide(const T* from, int64_t step) {
  if constexpr (std::is_same_v<T, A>) {
    return load_groups<kSide>(from, step);
  } else if constexpr (kSide == kLanes<A>) {
    return load_wide<A>(from);
  } else {
    using Part = std::conditional_t<
        kSide * sizeof(T) == 16, Lanes<uint64_t, 2>,
        std::conditional_t<kSide * sizeof(T) == 8, uint64_t,
                           std::conditional_t<kSide * sizeof(T) == 4, uint32_t, uint16_t>>>;
    Part parts[kLanes<A> / kSide];
    for (auto& part : parts) {
      std::memcpy(&part, from, sizeof part);
      from += step;
    }
    return load_wide<A>(reinterpret_cast<const T*>(parts));
  }
}

}  // namespace myops::MYOPS_ISA
