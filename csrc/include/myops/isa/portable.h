// No instruction set beyond the compiler's default; the reference for the others.
#pragma once

#include "common.h"
#define MYOPS_ISA portable
#define MYOPS_VECTOR_BYTES 16
#define MYOPS_REGISTERS 16
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"  // long vectors go to inlined functions only
#endif
