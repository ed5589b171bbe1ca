// Permutations of lanes, and loads from several addresses; part of simd.h.
#pragma once

#include "myops/simd.h"

namespace myops::MYOPS_ISA {

// Whether permute() is a few instructions for elements of A.
template <class A>
inline constexpr bool kPermutes = MYOPS_VECTOR_BYTES >= 32 && (sizeof(A) == 4 || sizeof(A) == 8);
inline constexpr int32_t kLaneNumbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
// For each lane: x[index], or with two vectors (x, y)[index]; only the lower bits of an index
// count.
#if MYOPS_VECTOR_BYTES == 64
inline Vector<float> permute(Vector<float> x, Index<float> index) {
  return (Vector<float>)_mm512_permutexvar_ps((__m512i)index, (__m512)x);
}
inline Vector<float> permute(Vector<float> x, Vector<float> y, Index<float> index) {
  return (Vector<float>)_mm512_permutex2var_ps((__m512)x, (__m512i)index, (__m512)y);
}
inline Vector<double> permute(Vector<double> x, Index<double> index) {
  return (Vector<double>)_mm512_permutexvar_pd(_mm512_cvtepi32_epi64((__m256i)index), (__m512d)x);
}
inline Vector<double> permute(Vector<double> x, Vector<double> y, Index<double> index) {
  const __m512i wide = _mm512_cvtepi32_epi64((__m256i)index);
  return (Vector<double>)_mm512_permutex2var_pd((__m512d)x, wide, (__m512d)y);
}
#elif MYOPS_VECTOR_BYTES == 32
inline Vector<float> permute(Vector<float> x, Index<float> index) {
  return (Vector<float>)_mm256_permutevar8x32_ps((__m256)x, (__m256i)index);
}
inline Vector<float> permute(Vector<float> x, Vector<float> y, Index<float> index) {
  return (Vector<float>)_mm256_blendv_ps((__m256)permute(x, index), (__m256)permute(y, index),
                                         (__m256)(index << 28));
}
// AVX2 can permute eight floats, but four doubles only by constant indices: they are permuted as
// pairs of floats.
inline Vector<double> permute(Vector<double> x, Index<double> index) {
  const Lanes<int64_t, 4> twice = 2 * __builtin_convertvector(index, Lanes<int64_t, 4>);
  return (Vector<double>)permute((Vector<float>)x, (Index<float>)(twice | ((twice + 1) << 32)));
}
inline Vector<double> permute(Vector<double> x, Vector<double> y, Index<double> index) {
  const auto second = __builtin_convertvector(index, Lanes<int64_t, 4>) << 61;
  return (Vector<double>)_mm256_blendv_pd((__m256d)permute(x, index), (__m256d)permute(y, index),
                                          (__m256d)second);
}
#endif
// from[index] in each lane.
#if MYOPS_VECTOR_BYTES == 64
inline Vector<float> gather_lanes(const float* from, Index<float> index) {
  return (Vector<float>)_mm512_i32gather_ps((__m512i)index, from, 4);
}
inline Vector<double> gather_lanes(const double* from, Index<double> index) {
  return (Vector<double>)_mm512_i32gather_pd((__m256i)index, from, 8);
}
#elif MYOPS_VECTOR_BYTES == 32
inline Vector<float> gather_lanes(const float* from, Index<float> index) {
  return (Vector<float>)_mm256_i32gather_ps(from, (__m256i)index, 4);
}
inline Vector<double> gather_lanes(const double* from, Index<double> index) {
  return (Vector<double>)_mm256_i32gather_pd(from, (__m128i)index, 8);
}
#endif
#if MYOPS_VECTOR_BYTES >= 32
// (x, y, z)[index].
template <class V, class I>
MYOPS_INLINE V permute(const V& x, const V& y, const V& z, I index) {
  constexpr int kCount = sizeof(I) / sizeof(int32_t);
  using Mask = Lanes<std::conditional_t<sizeof(V) == sizeof(I), int32_t, int64_t>, kCount>;
  const auto near = __builtin_convertvector(index < 2 * kCount, Mask);
  return near ? permute(x, y, index) : permute(z, index);
}
#endif

// Copies fewer than kMost <= 16 elements in at most four steps. (A loop takes a step for each.)
template <int64_t kMost, class T>
MYOPS_INLINE void copy_few(const T* from, int64_t count, T* to) {
  static_assert(kMost <= 16);
  const auto copy = [&](auto some) MYOPS_INLINED {
    if constexpr (some() < kMost) {
      if ((count & some()) == 0) return;
      std::memcpy(to, from, some() * sizeof(T));
      from += some();
      to += some();
    }
  };
  copy(std::integral_constant<int64_t, 8>());
  copy(std::integral_constant<int64_t, 4>());
  copy(std::integral_constant<int64_t, 2>());
  copy(std::integral_constant<int64_t, 1>());
}

// The first `count` elements, fewer than a vector has, as load_wide() and store_narrow() of whole
// vectors; memory after them is not accessed. The other lanes are 0.
template <class A, class T>
MYOPS_INLINE Vector<A> load_part(const T* from, int64_t count) {
#if MYOPS_VECTOR_BYTES == 64
  const auto mask = static_cast<uint32_t>((1 << count) - 1);
  if constexpr (sizeof(T) == 8) return (Vector<A>)_mm512_maskz_loadu_pd(mask, from);
  if constexpr (sizeof(T) == 4) return (Vector<A>)_mm512_maskz_loadu_ps(mask, from);
  T part[kLanes<A>];
  if constexpr (sizeof(T) == 2) store(part, _mm256_maskz_loadu_epi16(mask, from));
  if constexpr (sizeof(T) == 1) store(part, _mm_maskz_loadu_epi8(mask, from));
#elif MYOPS_VECTOR_BYTES == 32
  const Index<A> lanes = load_as<Index<A>>(kLaneNumbers);
  const auto mask = lanes < static_cast<int32_t>(count);
  if constexpr (sizeof(T) == 8) {
    return (Vector<A>)_mm256_maskload_pd(from, _mm256_cvtepi32_epi64((__m128i)mask));
  }
  if constexpr (sizeof(T) == 4) return (Vector<A>)_mm256_maskload_ps(from, (__m256i)mask);
  T part[kLanes<A>] = {};
  copy_few<kLanes<A>>(from, count, part);
#else
  T part[kLanes<A>] = {};
  copy_few<kLanes<A>>(from, count, part);
#endif
  return load_wide<A>(part);
}
template <class A, class T>
MYOPS_INLINE void store_part(T* to, const Vector<A>& vector, int64_t count) {
  T part[kLanes<A>];
  store_narrow<A>(part, vector);
#if MYOPS_VECTOR_BYTES == 64
  const auto mask = static_cast<uint32_t>((1 << count) - 1);
  if constexpr (sizeof(T) == 8) _mm512_mask_storeu_pd(to, mask, (__m512d)vector);
  if constexpr (sizeof(T) == 4) _mm512_mask_storeu_ps(to, mask, (__m512)vector);
  if constexpr (sizeof(T) == 2) _mm256_mask_storeu_epi16(to, mask, load_as<__m256i>(part));
  if constexpr (sizeof(T) == 1) _mm_mask_storeu_epi8(to, mask, load_as<__m128i>(part));
#else
  copy_few<kLanes<A>>(part, count, to);
#endif
}

// For each group g of four lanes: lanes 4 g to 4 g + 3 are from[at[4 g]], ....
template <class A>
inline Vector<A> load_fours(const A* from, const int32_t* at) {
  Vector<A> fours;
  A parts[kLanes<A>];
  for (int64_t group = 0; group < kLanes<A>; group += 4) {
    std::memcpy(parts + group, from + at[group], 4 * sizeof(A));
  }
  std::memcpy(&fours, parts, sizeof fours);
  return fours;
}
#if MYOPS_VECTOR_BYTES >= 32
inline __m256 two_fours(const float* low, const float* high) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
}
template <>
inline Vector<float> load_fours<float>(const float* from, const int32_t* at) {
#if MYOPS_VECTOR_BYTES == 64
  return (Vector<float>)_mm512_insertf32x8(
      _mm512_castps256_ps512(two_fours(from + at[0], from + at[4])),
      two_fours(from + at[8], from + at[12]), 1);
#else
  return (Vector<float>)two_fours(from + at[0], from + at[4]);
#endif
}
#endif

// A vector from its groups of 16 bytes.
template <class A>
MYOPS_INLINE Vector<A> join_quads(const Lanes<A, kQuad<A>> (&quads)[kLanes<A> / kQuad<A>]) {
#if MYOPS_VECTOR_BYTES >= 32
  const auto two = [&](int i) MYOPS_INLINED {
    return _mm256_insertf128_ps(_mm256_castps128_ps256((__m128)quads[i]), (__m128)quads[i + 1], 1);
  };
#endif
#if MYOPS_VECTOR_BYTES == 64
  return (Vector<A>)_mm512_insertf32x8(_mm512_castps256_ps512(two(0)), two(2), 1);
#elif MYOPS_VECTOR_BYTES == 32
  return (Vector<A>)two(0);
#else
  return quads[0];
#endif
}

// a[0], b[0], a[1], b[1], ...
template <class A, int... kLane>
MYOPS_INLINE void store_interleaved(const Vector<A>& a, const Vector<A>& b, A* to,
                                    std::integer_sequence<int, kLane...>) {
  constexpr int L = sizeof...(kLane);
  store(to, shuffle<(kLane / 2 + kLane % 2 * L)...>(a, b));
  store(to + L, shuffle<(L / 2 + kLane / 2 + kLane % 2 * L)...>(a, b));
}
template <class A>
MYOPS_INLINE void store_interleaved(const Vector<A>& a, const Vector<A>& b, A* to) {
  store_interleaved<A>(a, b, to, std::make_integer_sequence<int, kLanes<A>>());
}

// Loads group g of kSide lanes from from + at[g * kSide] * scale.
template <int64_t kSide, class A>
MYOPS_INLINE Vector<A> load_groups_at(const A* from, const int32_t* at, int64_t scale) {
  using Part = Lanes<A, kSide>;
  constexpr int64_t kGroups = kLanes<A> / kSide;
  Part parts[kGroups];
  for (int64_t g = 0; g < kGroups; ++g) parts[g] = load_as<Part>(from + at[g * kSide] * scale);
  if constexpr (kGroups == 1) {
    return parts[0];
  } else if constexpr (sizeof(Part) == 16) {
    return join_quads<A>(parts);
#if MYOPS_VECTOR_BYTES == 64
  } else if constexpr (sizeof(Part) == 32) {
    return (Vector<A>)_mm512_insertf64x4(_mm512_castpd256_pd512((__m256d)parts[0]),
                                         (__m256d)parts[1], 1);
#endif
  } else {
    Vector<A> vector;
    std::memcpy(&vector, parts, sizeof vector);
    return vector;
  }
}
template <class Bits, class T, int... k>
MYOPS_INLINE Lanes<Bits, sizeof...(k)> bits_at(const T* from, const int32_t* at,
                                               std::integer_sequence<int, k...>) {
  return Lanes<Bits, sizeof...(k)>{load_as<Bits>(from + at[k])...};
}
// As load_wide(), kCount elements each from from + at[0], from + at[1], ....
template <class A, int64_t kCount, class T>
MYOPS_INLINE Vector<A> load_runs(const T* from, const int32_t* at) {
  constexpr int64_t L = kLanes<A>;
  if constexpr (kCount == L) {
    return load_wide<A>(from + at[0]);
  } else if constexpr (std::is_same_v<A, T> && kCount == kQuad<A>) {
    Lanes<A, kQuad<A>> quads[L / kCount];
#pragma GCC unroll 4
    for (int64_t i = 0; i < L / kCount; ++i) quads[i] = load_as<Lanes<A, kCount>>(from + at[i]);
    return join_quads<A>(quads);
  } else if constexpr (kCount * sizeof(T) <= 8) {
    // (Parts that are stored one by one and loaded together would wait for each other.)
    using Bits =
        std::conditional_t<kCount * sizeof(T) == 8, uint64_t,
                           std::conditional_t<kCount * sizeof(T) == 4, uint32_t, uint16_t>>;
    const auto all =
        bits_at<Bits>(from, at, std::make_integer_sequence<int, static_cast<int>(L / kCount)>());
    T elements[L];
    store(elements, all);
    return load_wide<A>(elements);
  } else {
    static_assert(2 * kCount == L);
    using Half = Lanes<uint8_t, kCount * sizeof(T)>;
    const Half low = load_as<Half>(from + at[0]), high = load_as<Half>(from + at[1]);
    T elements[L];
#if MYOPS_VECTOR_BYTES == 64
    if constexpr (sizeof(Half) == 32) {
      store(elements, _mm512_inserti64x4(_mm512_castsi256_si512((__m256i)low), (__m256i)high, 1));
    } else {
      store(elements,
            _mm256_inserti128_si256(_mm256_castsi128_si256((__m128i)low), (__m128i)high, 1));
    }
#else
    store(elements, low);
    store(elements + kCount, high);
#endif
    return load_wide<A>(elements);
  }
}

// Of numbers a_0 b_0 a_1 b_1 ... in two vectors, the first of each pair, or the second. Groups of
// 16 bytes stay where they are, and those of `low` come first.
template <int kSecond, class V, int... kLane>
MYOPS_INLINE V of_pairs(V low, V high, std::integer_sequence<int, kLane...>) {
  constexpr int L = sizeof...(kLane), Q = 16 * L / sizeof(V);
  return shuffle<(kLane / Q * Q + kLane % Q * 2 % Q + kSecond + kLane % Q * 2 / Q * L)...>(low,
                                                                                           high);
}
// lefts[i] = from[at[i]], rights[i] = from[at[i] + 1]; a pair is one load.
template <class A>
MYOPS_INLINE void load_pairs(const A* from, const int32_t* at, Vector<A>& lefts,
                             Vector<A>& rights) {
  constexpr int64_t L = kLanes<A>, Q = kQuad<A>;
  using Quad = Lanes<A, Q>;
  Quad low[L / Q], high[L / Q];
#pragma GCC unroll 4
  for (int64_t i = 0; i < L / Q; ++i) {
    if constexpr (Q == 2) {
      low[i] = load_as<Quad>(from + at[2 * i]);
      high[i] = load_as<Quad>(from + at[2 * i + 1]);
    } else {
      const auto two = [&](int64_t lane) MYOPS_INLINED {
        uint64_t pairs[2];
        std::memcpy(pairs, from + at[lane], 8);
        std::memcpy(pairs + 1, from + at[lane + 1], 8);
        return (Quad)Lanes<uint64_t, 2>{pairs[0], pairs[1]};
      };
      low[i] = two(4 * i);
      high[i] = two(4 * i + 2);
    }
  }
  constexpr auto kAll = std::make_integer_sequence<int, static_cast<int>(L)>();
  const Vector<A> first = join_quads<A>(low), second = join_quads<A>(high);
  lefts = of_pairs<0>(first, second, kAll);
  rights = of_pairs<1>(first, second, kAll);
}

// The same by the instruction that gathers; see gathers_pay().
template <class A>
inline constexpr bool kGathersPairs = MYOPS_VECTOR_BYTES == 64 && sizeof(A) == 4;
template <class A>
MYOPS_INLINE void gather_pairs(const A* from, const int32_t* at, Vector<A>& lefts,
                               Vector<A>& rights) {
#if MYOPS_VECTOR_BYTES == 64
  const auto pairs = [&](int first) MYOPS_INLINED {
    const __m256i places = load_as<__m256i>(at + first);
    return (Vector<A>)_mm512_i32gather_epi64(places, from, sizeof(A));
  };
  const Vector<A> low = pairs(0), high = pairs(8);
  const Index<A> even = 2 * load_as<Index<A>>(kLaneNumbers);
  lefts = permute(low, high, even);
  rights = permute(low, high, even + 1);
#else
  load_pairs(from, at, lefts, rights);
#endif
}

#if MYOPS_VECTOR_BYTES >= 32
inline __m128i sixteen_bytes(const uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
inline __m256i two_sixteens(const uint8_t* from, const int32_t* at) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(sixteen_bytes(from + at[0])),
                                 sixteen_bytes(from + at[1]), 1);
}
#endif
// Loads group g of 16 bytes of the vector from from + at[g].
template <class V>
inline V load_sixteens(const uint8_t* from, const int32_t* at) {
#if MYOPS_VECTOR_BYTES == 64
  if constexpr (sizeof(V) == 64) {
    return (V)_mm512_inserti64x4(_mm512_castsi256_si512(two_sixteens(from, at)),
                                 two_sixteens(from, at + 2), 1);
  }
#endif
#if MYOPS_VECTOR_BYTES >= 32
  if constexpr (sizeof(V) == 32) return (V)two_sixteens(from, at);
#endif
  static_assert(sizeof(V) <= MYOPS_VECTOR_BYTES);
  return load_as<V>(from + at[0]);
}
// Whether shuffle_bytes() is one instruction.
inline constexpr bool kShuffles = MYOPS_VECTOR_BYTES >= 32;
// In each group of 16 bytes: x[index] of the same group, or 0 where the index is 128 or more.
template <class V>
inline V shuffle_bytes(V x, V index) {
#if MYOPS_VECTOR_BYTES == 64
  if constexpr (sizeof(V) == 64) return (V)_mm512_shuffle_epi8((__m512i)x, (__m512i)index);
#endif
#if MYOPS_VECTOR_BYTES >= 32
  if constexpr (sizeof(V) == 32) return (V)_mm256_shuffle_epi8((__m256i)x, (__m256i)index);
  if constexpr (sizeof(V) == 16) return (V)_mm_shuffle_epi8((__m128i)x, (__m128i)index);
#else
  V result{};
  for (size_t i = 0; i < sizeof(V); ++i) result[i] = index[i] < 128 ? x[index[i]] : 0;
  return result;
#endif
}

}  // namespace myops::MYOPS_ISA
