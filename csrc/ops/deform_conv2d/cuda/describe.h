// What kernels on a device get of tensors and sizes; for launch.cpp of the ops that sample.
#pragma once

#include <algorithm>

#include "../conv_shape.h"
#include "deform_conv2d/cuda/positions.h"
#include "myops/context.h"

namespace myops::deform {

inline DeformTensor describe(const Tensor& tensor) {
  DeformTensor described{};
  if (!tensor.present) return described;
  described.data = tensor.data;
  std::copy(tensor.strides.begin(), tensor.strides.end(), described.stride);
  return described;
}

inline DeformResult result(const Tensor& tensor) {
  DeformResult described{};
  if (!tensor.present || tensor.elements() == 0) return described;
  described.data = tensor.data;
  std::copy(tensor.strides.begin(), tensor.strides.end(), described.stride);
  return described;
}

inline DeformSizes describe(const ConvShape& conv) {
  return {conv.batch,         conv.channels,  conv.height,       conv.width,      conv.outputs,
          conv.out_height,    conv.out_width, conv.kernel_width, conv.taps,       conv.groups,
          conv.offset_groups, conv.stride_y,  conv.stride_x,     conv.dilation_y, conv.dilation_x,
          conv.pad_top,       conv.pad_left};
}

}  // namespace myops::deform
