// AVX-512 with dot products of bytes (VNNI): Cascade Lake, Zen 4 and later. For kernels on integers
// of 8 bits alone, which choose it by byte_products.h; no other kernel is compiled for it.
#pragma once

#include "common.h"
#if defined(__x86_64__)
#define MYOPS_ISA avx512_vnni
#define MYOPS_VECTOR_BYTES 64
#define MYOPS_REGISTERS 32
#define MYOPS_BYTE_PRODUCTS
#if defined(__clang__)
#pragma clang attribute push(                                                                      \
    __attribute__((target("avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prfchw"))), \
    apply_to = function)
#else
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // its own header, bug 105593
#pragma GCC target("avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prfchw")
#endif
#endif
