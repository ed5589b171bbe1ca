#include "values.h"

#include <memory>

#include "status.h"
#include "typed_op.h"

namespace myops::ort {
namespace {

// Uses a temporary object; older hosts have no other function.
Description describe_by_copy(const Api& api, const Value* value) {
  TypeAndShape* info = nullptr;
  check(api, api.GetTensorTypeAndShape(value, &info));
  const std::unique_ptr<TypeAndShape, decltype(api.ReleaseTensorTypeAndShapeInfo)> owner(
      info, api.ReleaseTensorTypeAndShapeInfo);
  ElementType type;
  check(api, api.GetTensorElementType(info, &type));
  size_t rank = 0;
  check(api, api.GetDimensionsCount(info, &rank));
  Shape shape(rank);
  check(api, api.GetDimensions(info, shape.data(), rank));
  return {from_element_type(type), shape};
}

}  // namespace

Description describe(const Api& api, const Value* value) {
  if (api.GetTensorElementTypeAndShapeDataReference == nullptr) return describe_by_copy(api, value);
  ElementType type;
  const int64_t* dims = nullptr;  // remains null for a scalar
  size_t rank = 0;
  check(api, api.GetTensorElementTypeAndShapeDataReference(value, &type, &dims, &rank));
  return {from_element_type(type), Shape(dims, dims + rank)};
}

}  // namespace myops::ort
