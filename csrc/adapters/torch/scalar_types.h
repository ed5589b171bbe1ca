// torch's element types: which of them are ours, and what torch calls each.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/core/ScalarType.h>

#include <array>
#include <optional>
#include <string>

#include "myops/dtype.h"

namespace myops::torch_adapter {

using torch::headeronly::ScalarType;

// Of each DType. Undefined: torch has no such tensors.
inline constexpr std::array<ScalarType, kDTypeCount> kScalarTypes = {
    ScalarType::Half,          ScalarType::BFloat16,     ScalarType::Float,
    ScalarType::Double,        ScalarType::Byte,         ScalarType::Int,
    ScalarType::Long,          ScalarType::Bool,         ScalarType::Char,
    ScalarType::Short,         ScalarType::UInt16,       ScalarType::UInt32,
    ScalarType::UInt64,        ScalarType::ComplexFloat, ScalarType::ComplexDouble,
    ScalarType::Float8_e4m3fn, ScalarType::Float8_e5m2,  ScalarType::Undefined};

// The element type of any tensor, even one that the stable interface refuses to name.
ScalarType scalar_type_of(AtenTensorHandle tensor);

std::optional<DType> from_scalar_type(ScalarType type);

// The name in Python, such as "float8_e4m3fnuz", for messages.
std::string scalar_type_name(ScalarType type);

// Its number in the stable C ABI. Strings have none: an Error.
int32_t dtype_code(DType dtype);

}  // namespace myops::torch_adapter
