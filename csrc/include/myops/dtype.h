// Element types, their C++ types, and dispatch from a run-time type to a C++ type.
#pragma once

#include <complex>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <string>
#include <type_traits>

#include "myops/narrow_floats.h"

namespace myops {

// New ones come last: the numbers are part of the interface between the libraries of a package.
enum class DType : uint8_t {
  Float16,
  BFloat16,
  Float32,
  Float64,
  UInt8,
  Int32,
  Int64,
  Bool,
  Int8,
  Int16,
  UInt16,
  UInt32,
  UInt64,
  Complex64,
  Complex128,
  Float8E4M3FN,
  Float8E5M2,
  String,  // in NumPy and ONNX Runtime; PyTorch has no tensors of strings
};

inline constexpr int kDTypeCount = 18;

// As in PyTorch and NumPy.
inline constexpr const char* dtype_name(DType dtype) {
  constexpr const char* names[kDTypeCount] = {
      "float16", "bfloat16",  "float32",    "float64",       "uint8",       "int32",
      "int64",   "bool",      "int8",       "int16",         "uint16",      "uint32",
      "uint64",  "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "string"};
  return names[static_cast<int>(dtype)];
}

// The size of an element in a kernel's memory. A string is a std::string object.
inline constexpr size_t dtype_size(DType dtype) {
  constexpr size_t sizes[kDTypeCount] = {2, 2, 4, 8, 1, 4,  8, 1, 1,
                                         2, 2, 4, 8, 8, 16, 1, 1, sizeof(std::string)};
  return sizes[static_cast<int>(dtype)];
}

// Integers and real floats, without the two floats of 8 bits: the dtypes for a list of lengths,
// scales or other numbers.
inline constexpr bool is_number(DType dtype) {
  return dtype != DType::Bool && dtype < DType::Complex64;
}
inline constexpr bool is_integer(DType dtype) { return is_number(dtype) && dtype > DType::Float64; }

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
template <>
inline constexpr DType dtype_of<bool> = DType::Bool;
template <>
inline constexpr DType dtype_of<int8_t> = DType::Int8;
template <>
inline constexpr DType dtype_of<int16_t> = DType::Int16;
template <>
inline constexpr DType dtype_of<uint16_t> = DType::UInt16;
template <>
inline constexpr DType dtype_of<uint32_t> = DType::UInt32;
template <>
inline constexpr DType dtype_of<uint64_t> = DType::UInt64;
template <>
inline constexpr DType dtype_of<std::complex<float>> = DType::Complex64;
template <>
inline constexpr DType dtype_of<std::complex<double>> = DType::Complex128;
template <>
inline constexpr DType dtype_of<Float8E4M3FN> = DType::Float8E4M3FN;
template <>
inline constexpr DType dtype_of<Float8E5M2> = DType::Float8E5M2;
template <>
inline constexpr DType dtype_of<std::string> = DType::String;

// The type that arithmetic on T runs in: at least float32, exact for integers.
template <class T>
using Accumulate = std::conditional_t<(sizeof(T) <= 2), float, T>;

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
