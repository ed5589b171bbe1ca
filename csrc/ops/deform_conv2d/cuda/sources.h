// The sources of this folder on the device of a call, and how a call computes its products.
#pragma once

#include "deform_conv2d/cuda/positions.h"
#include "myops/context.h"
#include "myops/cuda.h"

namespace myops::deform {

// `main`: the file's name in this folder.
cuda::Gpu gpu_with(const KernelContext& context, const char* main);

enum class Products { Direct, Few, Tiles, TensorCores };
// `gradient`: of the gradients of X, offset, mask and W.
Products products_of(const KernelContext& context, const DeformSizes& sizes, bool gradient);
const char* name_of(Products products);  // as in reports

// The most bytes for the products of some rows, and for the slices of the gradient of W. It is
// small because other work uses the memory of the device too.
constexpr int64_t kProductBytes = 64 << 20;

}  // namespace myops::deform
