// AVX-512 with products of bfloat16: Cooper Lake, Sapphire Rapids, Zen 4 and later. For products of
// bfloat16 alone, which choose it by bfloat16_products.h; no other kernel is compiled for it.
#pragma once

#include "common.h"
#if defined(__x86_64__)
#define MYOPS_ISA avx512_bf16
#define MYOPS_VECTOR_BYTES 64
#define MYOPS_REGISTERS 32
#define MYOPS_BFLOAT16_PRODUCTS
#if defined(__clang__)
#pragma clang attribute push(                                                                      \
    __attribute__((target("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prfchw"))), \
    apply_to = function)
#else
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // its own header, bug 105593
#pragma GCC target("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prfchw")
#endif
#endif
