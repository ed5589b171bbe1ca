// An instruction set whose products of bfloat16 are plain code, for tests on CPUs without them; see
// myops/simd_bfloat16.h. Included in place of a header of myops/isa.
#pragma once

#include <cfloat>

#include "myops/isa/common.h"
#define MYOPS_ISA emulated_bfloat16
#define MYOPS_VECTOR_BYTES 16
#define MYOPS_REGISTERS 16
#define MYOPS_BFLOAT16_PRODUCTS
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif
#include "myops/simd.h"

namespace myops::emulated_bfloat16 {

// Subnormal numbers become 0 with their sign.
inline float flushed(float value) {
  return std::fabs(value) < FLT_MIN ? std::copysign(0.0f, value) : value;
}

// Of one lane.
inline float add_products(uint32_t a, uint32_t b, float sum) {
  const auto number = [](uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return flushed(value);
  };
  const float second = std::fmaf(number(a & 0xffff0000u), number(b & 0xffff0000u), flushed(sum));
  return flushed(std::fmaf(number(a << 16), number(b << 16), flushed(second)));
}

inline Lanes<float, 4> add_dot(Lanes<int32_t, 4> a, Lanes<int32_t, 4> b, Lanes<float, 4> sum) {
  for (int i = 0; i < 4; ++i) {
    sum[i] = add_products(static_cast<uint32_t>(a[i]), static_cast<uint32_t>(b[i]), sum[i]);
  }
  return sum;
}

inline void store_rounded(BFloat16* to, const Lanes<float, 4>& values) {
  for (int i = 0; i < 4; ++i) to[i] = BFloat16(flushed(values[i]));
}

}  // namespace myops::emulated_bfloat16
