// One lane of the instructions behind myops/simd_bfloat16.h.
#pragma once

#include <cstdint>

#include "myops/dtype.h"

namespace instructions {

float add_products(uint32_t a, uint32_t b, float sum);
myops::BFloat16 rounded(float value);

}  // namespace instructions
