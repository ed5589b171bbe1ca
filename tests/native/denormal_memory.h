// Whether a call computes with memory that it has not written: scratch memory and the stack are
// filled with denormal numbers before, which the CPU notes when an instruction has one as operand.
// A vector that is wider than what was written may read such numbers, and its other lanes are
// right, but each instruction then takes a hundred nanoseconds.
#pragma once

#include <algorithm>
#include <vector>

#include "myops/memory.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// One of float and, twice, of double.
inline constexpr uint32_t kDenormal = 1;

__attribute__((noinline)) inline void fill_stack() {
  volatile uint32_t numbers[32768];
  for (volatile uint32_t& number : numbers) number = kDenormal;
}

inline void fill_memory_with_denormals() {
  std::vector<myops::Scratch> blocks;  // each is kept for later calls that need about as much
  for (size_t bytes = 16 << 10; bytes <= size_t{1} << 20; bytes *= 2) {
    blocks.emplace_back(bytes);
    std::fill_n(blocks.back().as<uint32_t>(), bytes / sizeof(uint32_t), kDenormal);
  }
  blocks.clear();
  fill_stack();
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() & ~0x3fU);  // the flags of exceptions
#endif
}

// False where the CPU does not say so, and with Clang, whose code outside of the kernels, where
// lengths become scales, has such operands.
inline bool computed_with_denormals() {
#if defined(__x86_64__) && !defined(__clang__)
  return (_mm_getcsr() & 0x02U) != 0;
#else
  return false;
#endif
}
