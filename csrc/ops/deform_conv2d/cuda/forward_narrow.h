// The kernel of forward.h with narrower tiles, compiled where it is used: for pixels so few that
// otherwise there would be no tile for some multiprocessors.
#pragma once

#define MYOPS_DEFORM_VARIANT
#include "deform_conv2d/cuda/forward.h"

MYOPS_BLOCK_KERNEL(deform_narrow, DeformForwardTile, ForwardNarrowShared, deform_narrow)
