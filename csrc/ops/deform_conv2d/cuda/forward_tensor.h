// The kernel of forward.h whose product is made on tensor cores, compiled where it is used: from
// sm_80 on.
#pragma once

#define MYOPS_DEFORM_VARIANT
#include "deform_conv2d/cuda/forward.h"

MYOPS_BLOCK_KERNEL(deform_tensor, DeformForwardTile, ForwardTensorShared, deform_tensor)
