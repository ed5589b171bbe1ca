// Short vectors of the instruction set that is switched on. The only place with intrinsics.
//
// The vectors are those of the compiler (GCC, Clang), so + - * and comparisons are plain operators;
// fma(a, b, c) = a b + c is fused where the set has it. Scalars have the same functions and the
// same rounding: which elements of a row are a vector's and which are left over does not show.
// No #pragma once around the functions is needed: a file switches on one set only.
#pragma once

#include "myops/isa.h"

namespace myops::MYOPS_ISA {

template <class A>
struct VectorOf {
  typedef A type __attribute__((vector_size(MYOPS_VECTOR_BYTES)));
};
template <class A>
using Vector = typename VectorOf<A>::type;
template <class A>
inline constexpr int64_t kLanes = MYOPS_VECTOR_BYTES / sizeof(A);

template <class A>
inline Vector<A> load(const A* from) {
  Vector<A> vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

template <class A>
inline void store(A* to, const Vector<A>& vector) {
  std::memcpy(to, &vector, sizeof vector);
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

#if MYOPS_VECTOR_BYTES == 64
inline Vector<float> fma(Vector<float> a, Vector<float> b, Vector<float> c) {
  return (Vector<float>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
inline Vector<double> fma(Vector<double> a, Vector<double> b, Vector<double> c) {
  return (Vector<double>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
#elif MYOPS_VECTOR_BYTES == 32
inline Vector<float> fma(Vector<float> a, Vector<float> b, Vector<float> c) {
  return (Vector<float>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
inline Vector<double> fma(Vector<double> a, Vector<double> b, Vector<double> c) {
  return (Vector<double>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
#elif MYOPS_REGISTERS == 32  // NEON
inline Vector<float> fma(Vector<float> a, Vector<float> b, Vector<float> c) {
  return (Vector<float>)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
inline Vector<double> fma(Vector<double> a, Vector<double> b, Vector<double> c) {
  return (Vector<double>)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}
#else
inline Vector<float> fma(Vector<float> a, Vector<float> b, Vector<float> c) { return a * b + c; }
inline Vector<double> fma(Vector<double> a, Vector<double> b, Vector<double> c) {
  return a * b + c;
}
#endif

#if MYOPS_VECTOR_BYTES > 16 || MYOPS_REGISTERS == 32
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
inline float fma(float a, float b, float c) { return a * b + c; }
inline double fma(double a, double b, double c) { return a * b + c; }
#endif

// x[k][lane] = from[at[lane] + k] for k < 4, or for k < 2: neighbours of each of kLanes places.
template <class A, int kCount>
inline void load_neighbours(const A* from, const int64_t* at, Vector<A> (&x)[kCount]) {
  A parts[kCount][kLanes<A>];
  for (int64_t lane = 0; lane < kLanes<A>; ++lane) {
    for (int k = 0; k < kCount; ++k) parts[k][lane] = from[at[lane] + k];
  }
  for (int k = 0; k < kCount; ++k) x[k] = load(parts[k]);
}
#if MYOPS_VECTOR_BYTES == 32
inline __m256 two_quads(const float* low, const float* high) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
}
inline void load_neighbours(const float* from, const int64_t* at, Vector<float> (&x)[4]) {
  const __m256 a = two_quads(from + at[0], from + at[4]), b = two_quads(from + at[1], from + at[5]);
  const __m256 c = two_quads(from + at[2], from + at[6]), d = two_quads(from + at[3], from + at[7]);
  const __m256 ab_low = _mm256_unpacklo_ps(a, b), ab_high = _mm256_unpackhi_ps(a, b);
  const __m256 cd_low = _mm256_unpacklo_ps(c, d), cd_high = _mm256_unpackhi_ps(c, d);
  x[0] = (Vector<float>)_mm256_shuffle_ps(ab_low, cd_low, 0x44);
  x[1] = (Vector<float>)_mm256_shuffle_ps(ab_low, cd_low, 0xee);
  x[2] = (Vector<float>)_mm256_shuffle_ps(ab_high, cd_high, 0x44);
  x[3] = (Vector<float>)_mm256_shuffle_ps(ab_high, cd_high, 0xee);
}
inline __m128 two_pairs(const float* low, const float* high) {
  return _mm_loadh_pi(_mm_castpd_ps(_mm_load_sd(reinterpret_cast<const double*>(low))),
                      reinterpret_cast<const __m64*>(high));
}
inline void load_neighbours(const float* from, const int64_t* at, Vector<float> (&x)[2]) {
  const __m256 even =
      _mm256_insertf128_ps(_mm256_castps128_ps256(two_pairs(from + at[0], from + at[1])),
                           two_pairs(from + at[4], from + at[5]), 1);
  const __m256 odd =
      _mm256_insertf128_ps(_mm256_castps128_ps256(two_pairs(from + at[2], from + at[3])),
                           two_pairs(from + at[6], from + at[7]), 1);
  x[0] = (Vector<float>)_mm256_shuffle_ps(even, odd, 0x88);
  x[1] = (Vector<float>)_mm256_shuffle_ps(even, odd, 0xdd);
}
#endif

// Stores past the caches, for results that do not fit into them; `to` is aligned to a vector.
// stream_end() comes before anybody else reads.
template <class A>
inline void stream(A* to, const Vector<A>& vector) {
#if MYOPS_VECTOR_BYTES == 64
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), (__m512i)vector);
#elif MYOPS_VECTOR_BYTES == 32
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)vector);
#elif defined(__x86_64__)
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), (__m128i)vector);
#else
  store(to, vector);
#endif
}
inline void stream_end() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace myops::MYOPS_ISA
