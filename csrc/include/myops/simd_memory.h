// Prefetching and non-temporal stores for large tensors; part of simd.h.
#pragma once

#include "myops/simd.h"

namespace myops::MYOPS_ISA {

// For a loop of stores: prefetches the cache line 2 KiB ahead, because a core that waits for each
// line it writes reaches only half of the memory bandwidth. It helps only where the loop writes a
// single stream, not two rows at a time.
template <class A>
inline constexpr int64_t kPrefetchDistance = 2048 / sizeof(A);
// (always_inline: GCC removes calls of a function whose only effect is a prefetch.)
template <class A>
MYOPS_INLINE void prefetch_store(A* to) {
  __builtin_prefetch(to + kPrefetchDistance<A>, 1);
}

// The same for a loop of loads: hardware prefetching stops at every page.
template <class A>
MYOPS_INLINE void prefetch_load(const A* from) {
  __builtin_prefetch(from + 1024 / sizeof(A));
}

// Non-temporal stores for results that do not fit the caches; `to` is aligned to a vector.
// stream_end() must come before other threads read the result.
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
