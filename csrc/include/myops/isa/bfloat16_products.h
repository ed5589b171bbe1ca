// For ops on bfloat16 that are also compiled for isa/avx512_bf16.h.
#pragma once

namespace myops {

// Whether isa() is AVX-512 and the CPU multiplies pairs of bfloat16 (AVX512-BF16).
bool has_bfloat16_products();

// Whether that is also faster than products in float32. On AMD Zen 4, deform_conv2d takes 0.6 of
// the time. On Intel Emerald Rapids it takes 1.6 times as long: the instruction takes 0.90 ns, the
// two fused multiply-adds that it replaces 0.44. It is therefore used on CPUs of AMD, or as the
// environment variable MYOPS_BFLOAT16_PRODUCTS (0 or 1) says. (A measurement at run time could have
// another outcome in each process, and results other bits.)
bool bfloat16_products_pay();

}  // namespace myops
