// The kernel of transposed.h whose product is made on tensor cores, compiled where it is used: from
// sm_80 on.
#pragma once

#define MYOPS_DEFORM_VARIANT
#include "deform_conv2d/cuda/transposed.h"

MYOPS_BLOCK_KERNEL(transposed_tensor, DeformTransposedTile, TransposedTensorShared,
                   transposed_tensor)
