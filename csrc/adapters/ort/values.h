// Element type and shape of a tensor of ONNX Runtime.
#pragma once

#include "abi.h"
#include "myops/tensor.h"

namespace myops::ort {

struct Description {
  DType dtype;
  Shape shape;
};

Description describe(const Api& api, const Value* value);

}  // namespace myops::ort
