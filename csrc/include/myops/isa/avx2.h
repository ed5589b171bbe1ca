// AVX2, FMA and F16C, which come together: vectors of 32 bytes, 16 registers.
#pragma once

#include "common.h"
#if defined(__x86_64__)
#define MYOPS_ISA avx2
#define MYOPS_VECTOR_BYTES 32
#define MYOPS_REGISTERS 16
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,prfchw"))), apply_to = function)
#else
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // its own header, bug 105593
#pragma GCC target("avx2,fma,f16c,prfchw")
#endif
#endif
