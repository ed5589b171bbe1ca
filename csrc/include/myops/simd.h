// Vectors of the instruction set for which a file is compiled. All intrinsics are in this file, its
// parts simd_lanes.h, simd_groups.h and simd_memory.h, and simd_integers.h and simd_bfloat16.h.
//
// The vectors are the compiler's own (GCC, Clang), so + - * and comparisons are plain operators;
// fma(a, b, c) = a b + c is fused where the set has it. Scalars have the same functions with the
// same rounding, so results do not depend on which elements of a row are processed as vectors.
#pragma once

#include "myops/isa.h"

// For functions that must be inlined whatever their size.
#define MYOPS_INLINE inline __attribute__((always_inline))
// The same for a lambda, written after its parameters. Otherwise, a lambda that is called in
// several places of a loop is inlined so late that its captures are loaded from memory at each
// call.
#define MYOPS_INLINED __attribute__((always_inline))
// For a loop that would get too few registers if it were inlined.
#define MYOPS_NOINLINE __attribute__((noinline))

namespace myops::MYOPS_ISA {

// Returns the pointer, but hides its origin from the compiler. Otherwise, the compiler keeps each
// of several addresses computed in a loop in a separate register and runs out of registers.
template <class A>
MYOPS_INLINE A* opaque(A* pointer) {
  asm("" : "+r"(pointer));
  return pointer;
}

template <class A, int64_t kCount>
struct LanesOf {
  typedef A type __attribute__((vector_size(kCount * sizeof(A))));
};
template <class A, int64_t kCount>
using Lanes = typename LanesOf<A, kCount>::type;  // kCount of A
template <class A>
inline constexpr int64_t kLanes = MYOPS_VECTOR_BYTES / sizeof(A);
template <class A>
using Vector = Lanes<A, kLanes<A>>;
template <class A>
using Index = Lanes<int32_t, kLanes<A>>;  // an integer for each lane
// The shortest vector: 16 bytes.
template <class A>
inline constexpr int64_t kQuad = 16 / sizeof(A);

template <class A>
inline Vector<A> load(const A* from) {
  Vector<A> vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

template <class V, class A>
inline V load_as(const A* from) {  // a vector of another length than Vector<A>
  V vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

template <class A, class V>
inline void store(A* to, const V& vector) {
  std::memcpy(static_cast<void*>(to), &vector, sizeof vector);
}

template <class A>
inline Vector<A> broadcast(A value) {
  return value - Vector<A>{};
}

// In a fixed order: halves are added to each other until one element is left.
template <class A>
inline A sum(const Vector<A>& vector) {
  A part[kLanes<A>];
  std::memcpy(part, &vector, sizeof vector);
  for (int64_t half = kLanes<A> / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane) part[lane] += part[lane + half];
  }
  return part[0];
}

// fma() for every length up to that of a Vector, and for one lane.
#define MYOPS_FMA(type, count, expression)                                  \
  inline Lanes<type, count> fma(Lanes<type, count> a, Lanes<type, count> b, \
                                Lanes<type, count> c) {                     \
    return (Lanes<type, count>)(expression);                                \
  }
#if MYOPS_VECTOR_BYTES == 64
MYOPS_FMA(float, 16, _mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c))
MYOPS_FMA(double, 8, _mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c))
#endif
#if MYOPS_VECTOR_BYTES >= 32
MYOPS_FMA(float, 8, _mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c))
MYOPS_FMA(double, 4, _mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c))
MYOPS_FMA(float, 4, _mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c))
MYOPS_FMA(double, 2, _mm_fmadd_pd((__m128d)a, (__m128d)b, (__m128d)c))
#elif MYOPS_REGISTERS == 32  // NEON
MYOPS_FMA(float, 4, vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b))
MYOPS_FMA(double, 2, vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b))
#else
MYOPS_FMA(float, 4, a* b + c)
MYOPS_FMA(double, 2, a* b + c)
#endif

#if MYOPS_VECTOR_BYTES > 16 || MYOPS_REGISTERS == 32
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
inline float fma(float a, float b, float c) { return a * b + c; }
inline double fma(double a, double b, double c) { return a * b + c; }
#endif
MYOPS_FMA(float, 1, (Lanes<float, 1>{fma(a[0], b[0], c[0])}))
MYOPS_FMA(double, 1, (Lanes<double, 1>{fma(a[0], b[0], c[0])}))
#undef MYOPS_FMA

// Towards minus infinity, for numbers within the range of int32_t.
template <class A>
inline Vector<A> floor(const Vector<A>& value) {
#if MYOPS_VECTOR_BYTES == 64
  if constexpr (sizeof(A) == 4) return (Vector<A>)_mm512_floor_ps((__m512)value);
  return (Vector<A>)_mm512_floor_pd((__m512d)value);
#elif MYOPS_VECTOR_BYTES == 32
  if constexpr (sizeof(A) == 4) return (Vector<A>)_mm256_floor_ps((__m256)value);
  return (Vector<A>)_mm256_floor_pd((__m256d)value);
#else
  const auto cut = __builtin_convertvector(value, Lanes<int32_t, kLanes<A>>);
  const Vector<A> down = __builtin_convertvector(cut, Vector<A>);
  return down + __builtin_convertvector(down > value, Vector<A>);  // true is -1
#endif
}

// For each lane, kIndex[lane] selects an element of a, or of b if it is at least the number of
// lanes.
template <int... kIndex, class V>
MYOPS_INLINE V shuffle(V a, V b) {
#if defined(__clang__)
  return __builtin_shufflevector(a, b, kIndex...);
#else
  constexpr size_t kBytes = sizeof(V) / sizeof...(kIndex);
  using Index =
      std::conditional_t<kBytes == 2, int16_t, std::conditional_t<kBytes == 4, int32_t, int64_t>>;
  return __builtin_shuffle(a, b, Lanes<Index, sizeof...(kIndex)>{kIndex...});
#endif
}

// Transposes the squares of kSide x kSide elements that lie side by side in kSide rows. Within
// them, squares of 1, 2, 4, ... lanes are transposed first.
template <int kStep, int kSide, class V, int... kLane>
MYOPS_INLINE void transpose_squares(V* rows, std::integer_sequence<int, kLane...> lanes) {
  constexpr int L = sizeof...(kLane);
#pragma GCC unroll 16
  for (int i = 0; i < kSide; ++i) {
    if (i & kStep) continue;
    const V a = rows[i], b = rows[i + kStep];
    rows[i] = shuffle<(kLane & kStep ? L + kLane - kStep : kLane)...>(a, b);
    rows[i + kStep] = shuffle<(kLane & kStep ? L + kLane : kLane + kStep)...>(a, b);
  }
  if constexpr (2 * kStep < kSide) transpose_squares<2 * kStep, kSide>(rows, lanes);
}
template <class A, int64_t kCount>
MYOPS_INLINE void transpose(Lanes<A, kCount>* rows) {
  transpose_squares<1, kCount>(rows, std::make_integer_sequence<int, kCount>());
}
// The same for each group of four lanes of four rows.
template <class A>
MYOPS_INLINE void transpose_fours(Vector<A>* rows) {
  transpose_squares<1, 4>(rows, std::make_integer_sequence<int, kLanes<A>>());
}

// The sums of the lanes of four vectors, in a fixed order.
template <class V, int... kLane>
MYOPS_INLINE V add_pairs(V a, V b, std::integer_sequence<int, kLane...>) {
  constexpr int L = sizeof...(kLane);  // of every four lanes: a0 + a2, b0 + b2, a1 + a3, b1 + b3
  return shuffle<(kLane / 4 * 4 + kLane % 4 / 2 + kLane % 2 * L)...>(a, b) +
         shuffle<(kLane / 4 * 4 + kLane % 4 / 2 + 2 + kLane % 2 * L)...>(a, b);
}
template <class V, int... kLane>
MYOPS_INLINE V add_quads(V ab, V cd, std::integer_sequence<int, kLane...>) {
  constexpr int L = sizeof...(kLane);  // of every four lanes: a, b, c, d
  return shuffle<(kLane / 4 * 4 + kLane % 2 + kLane % 4 / 2 * L)...>(ab, cd) +
         shuffle<(kLane / 4 * 4 + kLane % 2 + 2 + kLane % 4 / 2 * L)...>(ab, cd);
}
// The sums of groups of four lanes: lane 4 g + v is the sum of group g of x[v].
template <class V, int... kLane>
MYOPS_INLINE V sums_of_fours(const V (&x)[4], std::integer_sequence<int, kLane...> lanes) {
  return add_quads(add_pairs(x[0], x[1], lanes), add_pairs(x[2], x[3], lanes), lanes);
}
template <class A, class V>
MYOPS_INLINE Lanes<A, 4> sums(const V (&x)[4]) {
  constexpr int L = sizeof(V) / sizeof(A);
  if constexpr (L < 4) {
    return Lanes<A, 4>{x[0][0] + x[0][1], x[1][0] + x[1][1], x[2][0] + x[2][1], x[3][0] + x[3][1]};
  } else {
    const V all = sums_of_fours(x, std::make_integer_sequence<int, L>());
    Lanes<A, 4> fours[L / 4];
    std::memcpy(fours, &all, sizeof all);
    for (int half = L / 8; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) fours[i] += fours[i + half];
    }
    return fours[0];
  }
}

// kLanes<float> bytes, widened; store_bytes() stores the lowest byte of each integer. GCC converts
// between bytes and integers lane by lane, hence the intrinsics.
inline Index<float> load_bytes(const uint8_t* from) {
#if MYOPS_VECTOR_BYTES == 64
  return (Index<float>)_mm512_cvtepu8_epi32(
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif MYOPS_VECTOR_BYTES == 32
  return (Index<float>)_mm256_cvtepu8_epi32(
      _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
#else
  return __builtin_convertvector((load_as<Lanes<uint8_t, kLanes<float>>>(from)), Index<float>);
#endif
}
inline void store_bytes(Index<float> values, uint8_t* to) {
#if MYOPS_VECTOR_BYTES == 64
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8((__m512i)values));
#elif MYOPS_VECTOR_BYTES == 32
  const auto lowest = (__m256i)(values & 255);
  const __m128i words =
      _mm_packus_epi32(_mm256_castsi256_si128(lowest), _mm256_extracti128_si256(lowest, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(words, words));
#else
  store(to, __builtin_convertvector(values & 255, Lanes<uint8_t, kLanes<float>>));
#endif
}

// The first four lanes of a vector, and a vector of which only those are defined. (GCC copies parts
// of vectors through memory.)
inline Lanes<float, 4> first_four(const Vector<float>& vector) {
#if MYOPS_VECTOR_BYTES == 64
  return (Lanes<float, 4>)_mm512_castps512_ps128((__m512)vector);
#elif MYOPS_VECTOR_BYTES == 32
  return (Lanes<float, 4>)_mm256_castps256_ps128((__m256)vector);
#else
  return vector;
#endif
}
inline Vector<float> from_four(const Lanes<float, 4>& four) {
#if MYOPS_VECTOR_BYTES == 64
  return (Vector<float>)_mm512_castps128_ps512((__m128)four);
#elif MYOPS_VECTOR_BYTES == 32
  return (Vector<float>)_mm256_castps128_ps256((__m128)four);
#else
  return four;
#endif
}

// kLanes elements in the type of the arithmetic, and back with the rounding of dtype.h.
template <class A, class T>
inline Vector<A> load_wide(const T* from) {
  if constexpr (std::is_same_v<T, A>) {
    return load(from);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    const auto bits = load_as<Lanes<uint16_t, kLanes<A>>>(from);
    return (Vector<A>)(__builtin_convertvector(bits, Lanes<uint32_t, kLanes<A>>) << 16);
  } else if constexpr (std::is_same_v<T, Half>) {
#if MYOPS_VECTOR_BYTES == 64
    return (Vector<A>)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif MYOPS_VECTOR_BYTES == 32
    return (Vector<A>)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
    A wide[kLanes<A>];
    for (int64_t lane = 0; lane < kLanes<A>; ++lane) wide[lane] = static_cast<A>(from[lane]);
    return load(wide);
#endif
  } else if constexpr (std::is_same_v<T, uint8_t>) {
    return __builtin_convertvector(load_bytes(from), Vector<A>);
  } else {
    return __builtin_convertvector((load_as<Lanes<T, kLanes<A>>>(from)), Vector<A>);
  }
}

template <class A, class T>
inline void store_narrow(T* to, const Vector<A>& vector) {
  if constexpr (std::is_same_v<T, A>) {
    store(to, vector);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    using Bits = Lanes<uint32_t, kLanes<A>>;
    const Bits bits = (Bits)vector, quiet = (bits >> 16) | 0x40u;
    const Bits rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const Bits chosen = vector != vector ? quiet : rounded;  // NaN
#if MYOPS_VECTOR_BYTES == 32                                 // as in store_bytes()
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm_packus_epi32(_mm256_castsi256_si128((__m256i)chosen),
                                      _mm256_extracti128_si256((__m256i)chosen, 1)));
#else
    store(to, __builtin_convertvector(chosen, Lanes<uint16_t, kLanes<A>>));
#endif
  } else if constexpr (std::is_same_v<T, uint8_t>) {
    // Rounds to nearest, half to even: for 0 to 255, the sum with 2^23 has no bits left for a
    // fraction, and the integer is in the lowest bits. Smaller and larger values become 0 and 255,
    // NaN becomes 0.
    static_assert(sizeof(A) == 4);
    const Vector<A> none{}, most = none + 255, no_fraction = none + 8388608;
    const Vector<A> low = vector > none ? vector : none;
    const Vector<A> inside = (low < most ? low : most) + no_fraction;
    store_bytes((Index<A>)inside, to);
  } else {
    static_assert(std::is_same_v<T, Half>);
#if MYOPS_VECTOR_BYTES == 64
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtps_ph((__m512)vector, 0));
#elif MYOPS_VECTOR_BYTES == 32
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph((__m256)vector, 0));
#else
    for (int64_t lane = 0; lane < kLanes<A>; ++lane) to[lane] = T(vector[lane]);
#endif
  }
}

}  // namespace myops::MYOPS_ISA

#include "myops/simd_groups.h"
#include "myops/simd_lanes.h"
#include "myops/simd_memory.h"
