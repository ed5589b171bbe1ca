// Arithmetic on integers of 8 and 16 bits. Every function has equal results on every instruction
// set.
#pragma once

#include "myops/simd.h"

namespace myops::MYOPS_ISA {

// What a lane of 32 bits of a dot product holds: four bytes, or two integers of 16 bits.
#ifdef MYOPS_BYTE_PRODUCTS
using Factor = uint8_t;       // of the left side
using SignedFactor = int8_t;  // of the right side
#else
using Factor = int16_t;
using SignedFactor = int16_t;
#endif
inline constexpr int64_t kFactors = 4 / sizeof(Factor);  // in a lane

// Lane by lane: sum + the products of the factors in a with those in b.
#define MYOPS_DOT(count, expression)                                                     \
  inline Lanes<int32_t, count> add_dot(Lanes<int32_t, count> a, Lanes<int32_t, count> b, \
                                       Lanes<int32_t, count> sum) {                      \
    return (Lanes<int32_t, count>)(expression);                                          \
  }
#ifdef MYOPS_BYTE_PRODUCTS
MYOPS_DOT(16, _mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b))
MYOPS_DOT(8, _mm256_dpbusd_epi32((__m256i)sum, (__m256i)a, (__m256i)b))
#else
#if MYOPS_VECTOR_BYTES == 64
MYOPS_DOT(16, sum + (Lanes<int32_t, 16>)_mm512_madd_epi16((__m512i)a, (__m512i)b))
#endif
#if MYOPS_VECTOR_BYTES >= 32
MYOPS_DOT(8, sum + (Lanes<int32_t, 8>)_mm256_madd_epi16((__m256i)a, (__m256i)b))
#endif
#if defined(__x86_64__)  // SSE2, which each of these CPUs has
MYOPS_DOT(4, sum + (Lanes<int32_t, 4>)_mm_madd_epi16((__m128i)a, (__m128i)b))
#else
MYOPS_DOT(4, sum + (a >> 16) * (b >> 16) + (a << 16 >> 16) * (b << 16 >> 16))
#endif
#endif
#undef MYOPS_DOT

// Lane by lane: (a b + 2^14) >> 15, the product of a with a fraction of 15 bits, rounded; a and b
// are not both -32768.
#define MYOPS_TIMES_FRACTION(count, expression)                                                   \
  inline Lanes<int16_t, count> times_fraction(Lanes<int16_t, count> a, Lanes<int16_t, count> b) { \
    return (Lanes<int16_t, count>)(expression);                                                   \
  }
#if MYOPS_VECTOR_BYTES == 64
MYOPS_TIMES_FRACTION(32, _mm512_mulhrs_epi16((__m512i)a, (__m512i)b))
#endif
#if MYOPS_VECTOR_BYTES >= 32
MYOPS_TIMES_FRACTION(16, _mm256_mulhrs_epi16((__m256i)a, (__m256i)b))
#elif defined(__aarch64__)
MYOPS_TIMES_FRACTION(8, vqrdmulhq_s16((int16x8_t)a, (int16x8_t)b))
#else
inline Lanes<int16_t, 8> times_fraction(Lanes<int16_t, 8> a, Lanes<int16_t, 8> b) {
  using Wide = Lanes<int32_t, 8>;
  const Wide product = __builtin_convertvector(a, Wide) * __builtin_convertvector(b, Wide);
  return __builtin_convertvector((product + 16384) >> 15, Lanes<int16_t, 8>);
}
#endif
#undef MYOPS_TIMES_FRACTION

// 16 bytes, widened.
using Bytes = Lanes<uint8_t, 16>;
inline void store_widened(const Bytes& bytes, int16_t zero, int shift, int16_t* to) {
#if MYOPS_VECTOR_BYTES >= 32
  const auto wide = (Lanes<int16_t, 16>)_mm256_cvtepu8_epi16((__m128i)bytes);
#else
  const auto wide = __builtin_convertvector(bytes, Lanes<int16_t, 16>);
#endif
  store(to, (wide - zero) << shift);
}

// Samples as factors: value - low, from 0 to 255, in a byte; or the value itself, from low to low +
// 255, in 16 bits.
template <class V>
MYOPS_INLINE void store_factors(const V& value, int16_t low, Factor* to) {
#ifdef MYOPS_BYTE_PRODUCTS
  const V above = value - low, inside = above > 0 ? above : V{};
  if constexpr (sizeof(V) == 64) {
    store(to, _mm512_cvtusepi16_epi8((__m512i)inside));
  } else {
    store(to, _mm256_cvtusepi16_epi8((__m256i)inside));
  }
#else
  const V least = V{} + low, most = least + 255;
  const V inside = value > least ? value : least;
  store(to, inside < most ? inside : most);
#endif
}

template <int... kLane>
MYOPS_INLINE void interleave(const Bytes& a, const Bytes& b, Bytes* to,
                             std::integer_sequence<int, kLane...>) {
#if defined(__clang__)
  to[0] = __builtin_shufflevector(a, b, (kLane / 2 + kLane % 2 * 16)...);
  to[1] = __builtin_shufflevector(a, b, (kLane / 2 + kLane % 2 * 16 + 8)...);
#else
  to[0] = __builtin_shuffle(a, b, Bytes{(kLane / 2 + kLane % 2 * 16)...});
  to[1] = __builtin_shuffle(a, b, Bytes{(kLane / 2 + kLane % 2 * 16 + 8)...});
#endif
}
// A square of 16 x 16 bytes. Each step rotates the eight bits of an element's row and column by
// one, so four of them exchange row and column.
MYOPS_INLINE void transpose_bytes(Bytes* rows) {
  constexpr auto kAll = std::make_integer_sequence<int, 16>();
#pragma GCC unroll 4
  for (int step = 0; step < 4; ++step) {
    Bytes next[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) interleave(rows[i], rows[i + 8], next + 2 * i, kAll);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) rows[i] = next[i];
  }
}

}  // namespace myops::MYOPS_ISA
