// Launches the kernels that compute in tiles, and those that copy inputs into the layouts that
// tiles are read from.
#pragma once

#include "few_outputs.h"
#include "forward.h"
#include "packing.h"
#include "sources.h"
#include "tile_gradients.h"
#include "transposed.h"
#include "weights.h"

namespace myops::deform {

// Whether every number that these kernels compute has 32 bits, and no tensor is empty.
bool fits_tiles(const DeformSizes& sizes, DType dtype);

// Whether, in addition, the places within a plane of X and X' have 32 bits.
bool fits_few(const DeformInputs& inputs);

// G, with its pixels next to each other.
struct TileGrad {
  const void* data;
  int64_t image_stride, output_stride;
};

// The copies of a call.
class Packing {
 public:
  Packing(const KernelContext& context, const DeformSizes& sizes);
  const DeformShape& shape() const { return shape_; }
  int64_t pack() const { return pack_; }  // elements in 16 bytes

  const void* image(const DeformTensor& X);  // null if X is
  TileGrad grad(const DeformTensor& grad);
  // W for products on the side of which are its outputs, or its columns, in blocks of channels.
  // Tensor cores read factors along the depth, other products along the side.
  const void* weights(const DeformTensor& W, bool outputs_along, int64_t block, int64_t blocks);

 private:
  cuda::Gpu gpu_;
  const DeformSizes sizes_;
  const int64_t size_, pack_;  // of an element; elements of a pack
  DeformShape shape_;
};

void forward_few(const KernelContext& context, const DeformForward& arguments);
void forward_tiles(const KernelContext& context, const DeformForward& arguments, Products products);

// The gradients of X, offset, mask and W: as DirectGradients.
class TileGradients {
 public:
  TileGradients(const KernelContext& context, const DeformInputs& inputs, Products products,
                const Tensor& grad, const Tensor& direct, const Tensor& changed);
  void run(const Tensor& grad_X, const Tensor& grad_offset, const Tensor& grad_mask);
  void run_weights(const Tensor& grad_W, int32_t column);

 private:
  void make_lists(cuda::Gpu& gpu);
  void run_rows(cuda::Gpu& gpu, bool positions);
  void multiply(const void* W, const void* products);

  const KernelContext& context_;
  const Products products_;
  const DeformInputs inputs_;
  const DeformTensor direct_, changed_;
  const int64_t size_;  // of a sum
  Packing packing_;
  TileGrad grad_;
  const void *X_ = nullptr, *X_direction_ = nullptr;
  DeformTileGradients arguments_{};
};

}  // namespace myops::deform
