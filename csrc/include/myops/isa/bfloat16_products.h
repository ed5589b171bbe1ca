// For ops on bfloat16 that are also compiled for isa/avx512_bf16.h.
#pragma once

namespace myops {

// Whether isa() is AVX-512 and the CPU multiplies pairs of bfloat16 (AVX512-BF16).
bool has_bfloat16_products();

}  // namespace myops
