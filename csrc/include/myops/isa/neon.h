// NEON with fused multiply-add, which every 64-bit ARM has: vectors of 16 bytes, 32 registers.
#pragma once

#include "common.h"
#if defined(__aarch64__)
#define MYOPS_ISA neon
#define MYOPS_VECTOR_BYTES 16
#define MYOPS_REGISTERS 32
#endif
