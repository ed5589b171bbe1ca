// The kernel of weights.h whose product is made on tensor cores, compiled where it is used: from
// sm_80 on.
#pragma once

#define MYOPS_DEFORM_VARIANT
#include "deform_conv2d/cuda/weights.h"

MYOPS_BLOCK_KERNEL(weights_tensor, DeformWeightsTile, WeightsTensorShared, weights_tensor)
