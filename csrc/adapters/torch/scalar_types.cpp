#include "scalar_types.h"

#include <torch/csrc/stable/ops.h>

#include "myops/error.h"

namespace myops::torch_adapter {

using S = ScalarType;

ScalarType scalar_type_of(AtenTensorHandle tensor) {
  int32_t code = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor, &code));
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype != DType::String && dtype_code(dtype) == code) return kScalarTypes[i];
  }
  return static_cast<ScalarType>(code);
}

std::optional<DType> from_scalar_type(ScalarType type) {
  if (type == S::Undefined) return std::nullopt;
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kScalarTypes[i] == type) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::string scalar_type_name(ScalarType type) {
  if (const auto dtype = from_scalar_type(type)) return dtype_name(*dtype);
  switch (type) {
    case S::ComplexHalf:
      return "complex32";
    case S::QInt8:
      return "qint8";
    case S::QUInt8:
      return "quint8";
    case S::QInt32:
      return "qint32";
    case S::QUInt4x2:
      return "quint4x2";
    case S::QUInt2x4:
      return "quint2x4";
    case S::Float8_e5m2fnuz:
      return "float8_e5m2fnuz";
    case S::Float8_e4m3fnuz:
      return "float8_e4m3fnuz";
    case S::Float8_e8m0fnu:
      return "float8_e8m0fnu";
    case S::Float4_e2m1fn_x2:
      return "float4_e2m1fn_x2";
    default:
      break;
  }
  // UInt1, Int4, Bits8 and others without arithmetic have the same names in Python, in small
  // letters.
  std::string name = torch::headeronly::toString(type);
  for (char& letter : name) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return name;
}

int32_t dtype_code(DType dtype) {
  static const std::array<int32_t, kDTypeCount> codes = {
      aoti_torch_dtype_float16(),     aoti_torch_dtype_bfloat16(),
      aoti_torch_dtype_float32(),     aoti_torch_dtype_float64(),
      aoti_torch_dtype_uint8(),       aoti_torch_dtype_int32(),
      aoti_torch_dtype_int64(),       aoti_torch_dtype_bool(),
      aoti_torch_dtype_int8(),        aoti_torch_dtype_int16(),
      aoti_torch_dtype_uint16(),      aoti_torch_dtype_uint32(),
      aoti_torch_dtype_uint64(),      aoti_torch_dtype_complex64(),
      aoti_torch_dtype_complex128(),  aoti_torch_dtype_float8_e4m3fn(),
      aoti_torch_dtype_float8_e5m2(), -1};
  const int32_t code = codes[static_cast<size_t>(dtype)];
  if (code < 0) throw Error(str("PyTorch has no tensors of dtype ", dtype_name(dtype)));
  return code;
}

}  // namespace myops::torch_adapter
