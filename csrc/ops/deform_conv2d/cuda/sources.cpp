#include "sources.h"

#include <cstring>
#include <numeric>

#include "../../../core/kernel_switch.h"
#include "few_outputs.h"
#include "forward_narrow.h"
#include "forward_tensor.h"
#include "gradients.h"
#include "tile_launch.h"
#include "transposed_tensor.h"
#include "weights_tensor.h"

#define MYOPS_DEFORM_FILE(name) \
  MYOPS_CUDA_FILE(myops_deform_##name, "deform_conv2d/cuda/" #name ".h")
MYOPS_DEFORM_FILE(positions)
MYOPS_DEFORM_FILE(shape)
MYOPS_DEFORM_FILE(samples)
MYOPS_DEFORM_FILE(tile_product)
MYOPS_DEFORM_FILE(packing)
MYOPS_DEFORM_FILE(few_outputs)
MYOPS_DEFORM_FILE(cells)
MYOPS_DEFORM_FILE(lists)
MYOPS_DEFORM_FILE(forward)
MYOPS_DEFORM_FILE(transposed)
MYOPS_DEFORM_FILE(weights)
MYOPS_DEFORM_FILE(gradients)
MYOPS_DEFORM_FILE(tile_gradients)
MYOPS_DEFORM_FILE(forward_tensor)
MYOPS_DEFORM_FILE(forward_narrow)
MYOPS_DEFORM_FILE(transposed_tensor)
MYOPS_DEFORM_FILE(weights_tensor)

namespace myops::deform {

cuda::Gpu gpu_with(const KernelContext& context, const char* main) {
  const std::vector<cuda::File> headers{
      myops_deform_positions,    myops_deform_shape,      myops_deform_samples,
      myops_deform_tile_product, myops_deform_cells,      myops_deform_lists,
      myops_deform_forward,      myops_deform_transposed, myops_deform_weights};
  for (const cuda::File& file :
       {myops_deform_packing, myops_deform_few_outputs, myops_deform_forward,
        myops_deform_transposed, myops_deform_weights, myops_deform_gradients,
        myops_deform_tile_gradients, myops_deform_forward_tensor, myops_deform_forward_narrow,
        myops_deform_transposed_tensor, myops_deform_weights_tensor}) {
    if (std::strcmp(std::strrchr(file.name, '/') + 1, main) != 0) continue;
    return cuda::Gpu(context, {file, headers}, context.input(0).dtype);
  }
  throw Error(str("no CUDA source ", main));
}

Products products_of(const KernelContext& context, const DeformSizes& sizes, bool gradient) {
  // With fewer, most of a tile is empty. The gradients use tiles even then: they spend more time on
  // samples than on products. But where packs of channels are mostly empty and many of them have
  // the same offsets, as in a depthwise convolution, tiles take 1.4 times as long or longer (H100,
  // 64 groups of one channel: 4.1 and 2.8 ms in float32, 5.6 and 3.0 ms in float16). Where each
  // pack has its own offsets, they take less (32 offset groups of one channel: 1.1 and 1.5 ms).
  constexpr int64_t kFewOutputs = 16, kFewOfPack = 4;
  if (!fits_tiles(sizes, context.input(0).dtype)) return Products::Direct;
  if (!kernel_enabled("deform_conv2d.cuda_tiles")) return Products::Direct;
  if (sizes.outputs / sizes.groups < kFewOutputs) {
    if (!gradient) return Products::Few;
    const int64_t sharing = deform_kernels::sharing(sizes);
    const int64_t part = std::gcd(deform_kernels::channels_of(sizes), sharing);
    const auto pack = static_cast<int64_t>(16 / dtype_size(context.input(0).dtype));
    return kFewOfPack * part <= pack && part < sharing ? Products::Direct : Products::Tiles;
  }
  if (!kernel_enabled("deform_conv2d.cuda_tensor")) return Products::Tiles;
  return cuda::on_tensor_cores(context, context.input(0).dtype) ? Products::TensorCores
                                                                : Products::Tiles;
}

const char* name_of(Products products) {
  switch (products) {
    case Products::Direct:
      return "cuda_direct";
    case Products::Few:
      return "cuda_few_outputs";
    case Products::Tiles:
      return "cuda_tiles";
    default:
      return "cuda_tensor";
  }
}

}  // namespace myops::deform
