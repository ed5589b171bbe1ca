// Floats of 16 and 8 bits: stored narrow, computed in float.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace myops {

namespace detail {
template <class To, class From>
To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "sizes differ");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

#ifdef __CUDACC__
// A GPU has instructions for these two, with the same results, except the bits of a NaN: without
// them, arithmetic and not memory bandwidth limits an op of float16.
inline float half_to_float(uint16_t half) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
}
inline uint16_t float_to_half(float value) {
  uint16_t half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
}
#else
inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {  // zero and subnormals: an integer times 2^-24
    const float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-8f;
    return bit_cast<float>(sign | bit_cast<uint32_t>(magnitude));
  }
  const uint32_t rebased = exponent == 31 ? 255u : exponent + 112u;
  return bit_cast<float>(sign | (rebased << 23) | (mantissa << 13));
}

// Round to nearest, ties to even, as IEEE 754 conversion hardware does.
inline uint16_t float_to_half(float value) {
  const uint32_t bits = bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN stays NaN, quiet, with the top bits of its payload
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // >= 65520
  if (magnitude < 0x38800000u) {  // below 2^-14: let float addition round at 2^-24
    const float shifted = bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}
#endif

inline uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// A float of 8 bits with `mantissa` bits of fraction and an exponent of 7 - mantissa bits, whose
// bias is half of its range.
template <int mantissa, int bias>
float tiny_to_float(uint8_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80u) << 24;
  const uint32_t magnitude = bits & 0x7fu, exponent = magnitude >> mantissa;
  if (exponent == 0) {  // zero and subnormals: an integer times the smallest of them
    const float value = std::ldexp(static_cast<float>(magnitude), 1 - bias - mantissa);
    return bit_cast<float>(sign | bit_cast<uint32_t>(value));
  }
  const auto rebased = static_cast<uint32_t>(static_cast<int>(exponent) + 127 - bias);
  const uint32_t fraction = magnitude & ((1u << mantissa) - 1u);
  return bit_cast<float>(sign | rebased << 23 | fraction << (23 - mantissa));
}

// The magnitude of a finite float, rounded to nearest, ties to even. The exponent may be too large
// for the format; the caller checks this.
template <int mantissa, int bias>
uint32_t round_to_tiny(uint32_t magnitude) {
  constexpr uint32_t smallest_normal = static_cast<uint32_t>(128 - bias) << 23;
  constexpr int dropped = 23 - mantissa;
  if (magnitude < smallest_normal) {  // let float addition round at the last bit
    const float shift = bit_cast<float>(static_cast<uint32_t>(128 - bias + dropped) << 23);
    return bit_cast<uint32_t>(bit_cast<float>(magnitude) + shift) - bit_cast<uint32_t>(shift);
  }
  const uint32_t half = (1u << (dropped - 1)) - 1u + (magnitude >> dropped & 1u);
  const uint32_t rebased = magnitude - (static_cast<uint32_t>(127 - bias) << 23);
  return (rebased + half) >> dropped;
}

// A number that is too large for float8_e4m3fn, which has no infinity, becomes NaN, as in ml_dtypes
// and in ONNX's Cast with saturate=0; in PyTorch 2.13 it becomes 448.
inline uint8_t float_to_e4m3fn(float value) {
  const uint32_t bits = bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
  const uint32_t sign = bits >> 24 & 0x80u;
  const uint32_t rounded = magnitude > 0x44000000u ? 0x7fu : round_to_tiny<3, 7>(magnitude);
  return static_cast<uint8_t>(sign | (rounded > 0x7eu ? 0x7fu : rounded));
}

inline uint8_t float_to_e5m2(float value) {
  const uint32_t bits = bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
  const uint32_t sign = bits >> 24 & 0x80u;
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);  // NaN
  const uint32_t rounded = magnitude > 0x48000000u ? 0x7cu : round_to_tiny<2, 15>(magnitude);
  return static_cast<uint8_t>(sign | (rounded > 0x7cu ? 0x7cu : rounded));
}
}  // namespace detail

struct Half {
  uint16_t bits = 0;
  Half() = default;
  explicit Half(float value) : bits(detail::float_to_half(value)) {}
  explicit operator float() const { return detail::half_to_float(bits); }
};

struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) : bits(detail::float_to_bfloat16(value)) {}
  explicit operator float() const {
    return detail::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

// 1 sign, 4 exponent and 3 mantissa bits; up to 448, no infinity.
struct Float8E4M3FN {
  uint8_t bits = 0;
  Float8E4M3FN() = default;
  explicit Float8E4M3FN(float value) : bits(detail::float_to_e4m3fn(value)) {}
  explicit operator float() const {
    if ((bits & 0x7fu) == 0x7fu) return detail::bit_cast<float>(0x7fc00000u);
    return detail::tiny_to_float<3, 7>(bits);
  }
};

// 1 sign, 5 exponent and 2 mantissa bits: the upper half of a float16.
struct Float8E5M2 {
  uint8_t bits = 0;
  Float8E5M2() = default;
  explicit Float8E5M2(float value) : bits(detail::float_to_e5m2(value)) {}
  explicit operator float() const {
    return detail::half_to_float(static_cast<uint16_t>(bits << 8));
  }
};

}  // namespace myops
