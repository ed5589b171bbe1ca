// Large results: memory asked for ahead, and non-temporal stores; part of simd.h.
#pragma once

#include "myops/simd.h"

namespace myops::MYOPS_ISA {

// A loop of stores asks for the line that it reaches 2 KiB later: a core that waits for each line
// it writes gets half of what memory can take. It must be one stream: with two rows at a time, the
// gain is lost.
template <class A>
inline constexpr int64_t kAhead = 2048 / sizeof(A);
// Loops that only copy take a tenth less time for it with AVX-512 (Zen 5), with AVX2 (Zen 3) a
// tenth more.
inline constexpr bool kCopiesAskAhead = MYOPS_VECTOR_BYTES == 64;
// (Inlined early: a function that does nothing else counts as one without effects, and goes.)
template <class A>
MYOPS_INLINE void expect_store(A* to) {
  __builtin_prefetch(to + kAhead<A>, 1);
}

// The same for a loop of loads from memory; hardware that foresees them stops at every page.
template <class A>
MYOPS_INLINE void expect_load(const A* from) {
  __builtin_prefetch(from + 1024 / sizeof(A));
}

// Non-temporal stores, for results that do not fit into them; `to` is aligned to a vector.
// stream_end() comes before anybody else reads.
template <class A>
inline void stream(A* to, const Vector<A>& vector) {
#if MYOPS_VECTOR_BYTES == 64
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), (__m512i)vector);
#elif MYOPS_VECTOR_BYTES == 32
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)vector);
#elif defined(__x86_64__)
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), (__m128i)vector);
#else
  store(to, vector);
#endif
}
template <class A>
inline bool can_stream(const A* to) {
  return reinterpret_cast<uintptr_t>(to) % MYOPS_VECTOR_BYTES == 0;
}
inline void stream_end() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace myops::MYOPS_ISA
