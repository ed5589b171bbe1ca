// Products of pairs of bfloat16. A lane of 32 bits has two of them, the first in the lower bits.
//
// The instruction adds the product of the second numbers to the sum, rounds to float32, and adds
// that of the first in the same way: fma(a[0], b[0], fma(a[1], b[1], sum)), to nearest, half to
// even, whatever the rounding mode. Subnormal numbers count as 0, as factors, sums and results.
#pragma once

#include "myops/simd.h"

namespace myops::MYOPS_ISA {

// Whether this set has them; see isa/avx512_bf16.h.
#ifdef MYOPS_BFLOAT16_PRODUCTS
inline constexpr bool kBFloat16Products = true;
#else
inline constexpr bool kBFloat16Products = false;
#endif

#if defined(MYOPS_BFLOAT16_PRODUCTS) && MYOPS_VECTOR_BYTES == 64
inline Lanes<float, 16> add_dot(Lanes<int32_t, 16> a, Lanes<int32_t, 16> b, Lanes<float, 16> sum) {
  return (Lanes<float, 16>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}
inline Lanes<float, 8> add_dot(Lanes<int32_t, 8> a, Lanes<int32_t, 8> b, Lanes<float, 8> sum) {
  return (Lanes<float, 8>)_mm256_dpbf16_ps((__m256)sum, (__m256bh)a, (__m256bh)b);
}

// Rounds to nearest, half to even; subnormal numbers become 0.
inline void store_rounded(BFloat16* to, const Lanes<float, 16>& values) {
  store(to, _mm512_cvtneps_pbh((__m512)values));
}
inline void store_rounded(BFloat16* to, const Lanes<float, 8>& values) {
  store(to, _mm256_cvtneps_pbh((__m256)values));
}
inline void store_rounded(BFloat16* to, const Lanes<float, 4>& values) {
  const auto rounded = (Lanes<int64_t, 2>)_mm_cvtneps_pbh((__m128)values);
  store(to, rounded[0]);
}
#endif

}  // namespace myops::MYOPS_ISA
