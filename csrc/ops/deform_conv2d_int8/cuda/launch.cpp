// Launches the CUDA kernels of deform_conv2d_int8.
#include "../../../core/kernel_switch.h"
#include "../../deform_conv2d/cuda/describe.h"
#include "entry.h"
#include "kernels.h"
#include "myops/cuda.h"

MYOPS_CUDA_FILE(myops_int8_positions, "deform_conv2d/cuda/positions.h")
MYOPS_CUDA_FILE(myops_int8_source, "deform_conv2d_int8/cuda/kernels.h")

namespace myops::deform {

void forward_int8_cuda(KernelContext& context) {
  const Tensor &X = context.input(0), &zero_point = context.input(2), &W = context.input(3);
  const Tensor &W_scale = context.input(4), &bias = context.input(6), &Y = context.output(0);
  if (Y.elements() == 0) return;
  DeformInt8 arguments{};
  arguments.inputs.sizes = describe(ConvShape(context.attributes(), X, W, Y));
  arguments.inputs.X = describe(X);
  arguments.inputs.offset = describe(context.input(5));
  arguments.inputs.mask = describe(context.input(7));
  arguments.W = describe(W);
  arguments.X_scale = context.input(1).data;
  arguments.X_zero_point = zero_point.present ? zero_point.data : nullptr;
  arguments.W_scale = W_scale.data;
  arguments.W_scale_stride = W_scale.elements() == 1 ? 0 : W_scale.strides[0];
  arguments.bias = bias.present ? bias.data : nullptr;
  arguments.bias_stride = bias.present ? bias.strides[0] : 0;
  arguments.mask_limit = static_cast<float>(context.attributes().real("mask_limit"));
  arguments.inverse_limit = 1 / arguments.mask_limit;
  arguments.Y = result(Y);

  constexpr int64_t kFewOutputs = 16;  // with fewer, most of a tile would be empty
  const DeformSizes& sizes = arguments.inputs.sizes;
  const bool tiles = deform_kernels::outputs_of(sizes) >= kFewOutputs &&
                     kernel_enabled("deform_conv2d_int8.cuda_tiles");
  context.report(tiles ? "cuda_tiles" : "cuda_direct", "Y");
  cuda::Gpu gpu(context, {myops_int8_source, {myops_int8_positions}}, X.dtype);
  if (tiles) {
    gpu.launch_blocks("int8_tile", int8_kernels::tile_blocks(sizes), arguments);
  } else {
    gpu.launch("int8_direct", int8_kernels::direct_threads(sizes), arguments);
  }
}

}  // namespace myops::deform
