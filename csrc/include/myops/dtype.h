// Element types, the two 16-bit floats, and dispatch from a run-time type to a C++ type.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <type_traits>

namespace myops {

enum class DType : uint8_t { Float16, BFloat16, Float32, Float64, UInt8, Int32, Int64 };

inline constexpr int kDTypeCount = 7;

inline constexpr const char* dtype_name(DType dtype) {
  constexpr const char* names[kDTypeCount] = {"float16", "bfloat16", "float32", "float64",
                                              "uint8",   "int32",    "int64"};
  return names[static_cast<int>(dtype)];
}

inline constexpr size_t dtype_size(DType dtype) {
  constexpr size_t sizes[kDTypeCount] = {2, 2, 4, 8, 1, 4, 8};
  return sizes[static_cast<int>(dtype)];
}

namespace detail {
template <class To, class From>
To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "sizes differ");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

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

inline uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
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

template <class T>
struct TypeTag {
  using type = T;
};

namespace detail {
template <class T>
constexpr DType no_dtype() {
  static_assert(sizeof(T) == 0, "no element type of myops is this C++ type");
  return DType::Float32;
}
}  // namespace detail

template <class T>
inline constexpr DType dtype_of = detail::no_dtype<T>();
template <>
inline constexpr DType dtype_of<float> = DType::Float32;
template <>
inline constexpr DType dtype_of<Half> = DType::Float16;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::BFloat16;
template <>
inline constexpr DType dtype_of<double> = DType::Float64;
template <>
inline constexpr DType dtype_of<uint8_t> = DType::UInt8;
template <>
inline constexpr DType dtype_of<int32_t> = DType::Int32;
template <>
inline constexpr DType dtype_of<int64_t> = DType::Int64;

// The type that arithmetic on T runs in: at least float32, exact for integers.
template <class T>
using Accumulate = std::conditional_t<
    std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> || std::is_same_v<T, uint8_t>, float, T>;

namespace detail {
[[noreturn]] void refuse_dispatch(DType dtype, std::initializer_list<DType> known);
}

// Calls `function(TypeTag<T>{})` for the T among Ts that `dtype` names, and refuses any other.
// invoke() has already refused every dtype that the op does not declare, so declare and dispatch
// the same list.
template <class... Ts, class Function>
void dispatch(DType dtype, Function&& function) {
  const bool known = ((dtype == dtype_of<Ts> ? (function(TypeTag<Ts>{}), true) : false) || ...);
  if (!known) detail::refuse_dispatch(dtype, {dtype_of<Ts>...});
}

}  // namespace myops
