// malloc() of this program, which counts live blocks and can fail. Include it in one file, of a
// program without sanitizers (they have a malloc() of their own).
#pragma once

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace counting {

inline std::atomic<int64_t> live_blocks{0}, live_bytes{0}, most_bytes{0};
inline std::atomic<int64_t> requests{0};
// The request that fails, counted from now on; 0: none. With `all_after` every later one does, too.
inline std::atomic<int64_t> fails_at{0};
inline std::atomic<bool> all_after{false};

inline bool refused() {
  const int64_t number = ++requests;
  const int64_t at = fails_at.load();
  return at > 0 && (number == at || (all_after && number > at));
}

inline void* count(void* block) {
  if (block == nullptr) return nullptr;
  ++live_blocks;
  const int64_t now = live_bytes += static_cast<int64_t>(malloc_usable_size(block));
  int64_t most = most_bytes.load();
  while (now > most && !most_bytes.compare_exchange_weak(most, now)) {
  }
  return block;
}

inline void forget(void* block) {
  if (block == nullptr) return;
  --live_blocks;
  live_bytes -= static_cast<int64_t>(malloc_usable_size(block));
}

}  // namespace counting

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);

void* malloc(size_t bytes) noexcept {
  return counting::refused() ? nullptr : counting::count(__libc_malloc(bytes));
}
void* calloc(size_t count, size_t bytes) noexcept {
  return counting::refused() ? nullptr : counting::count(__libc_calloc(count, bytes));
}
void* realloc(void* block, size_t bytes) noexcept {
  if (counting::refused()) return nullptr;
  counting::forget(block);
  return counting::count(__libc_realloc(block, bytes));
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return counting::refused() ? nullptr : counting::count(__libc_memalign(alignment, bytes));
}
void* memalign(size_t alignment, size_t bytes) noexcept { return aligned_alloc(alignment, bytes); }
int posix_memalign(void** block, size_t alignment, size_t bytes) noexcept {
  *block = aligned_alloc(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}
void free(void* block) noexcept {
  counting::forget(block);
  __libc_free(block);
}
}
