// AVX-512 as every CPU since Skylake's servers and Zen 4 has it: vectors of 64 bytes, 32 registers.
#pragma once

#include "common.h"
#if defined(__x86_64__)
#define MYOPS_ISA avx512
#define MYOPS_VECTOR_BYTES 64
#define MYOPS_REGISTERS 32
#if defined(__clang__)
#pragma clang attribute push(                                                           \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prfchw"))), \
    apply_to = function)
#else
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // its own header, bug 105593
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prfchw")
#endif
#endif
