#include "myops/memory.h"

#include <cstdlib>
#include <limits>
#include <new>

#if __has_include(<unistd.h>)
#include <unistd.h>
#endif

#include "myops/error.h"

namespace myops {
namespace {

constexpr size_t kAlignment = 64;

// Aligned by hand: glibc's aligned allocation does not find the hole again that one of the same
// size has left, so that calls with several buffers took more and more memory, and time. What
// malloc() gave stands before the memory.
void* allocate(size_t bytes) {
  constexpr size_t more = kAlignment + sizeof(void*);
  void* const all = bytes <= SIZE_MAX - more ? std::malloc(bytes + more) : nullptr;
  if (all == nullptr) throw std::bad_alloc();
  const uintptr_t first = reinterpret_cast<uintptr_t>(all) + sizeof(void*);
  const uintptr_t aligned = (first + kAlignment - 1) / kAlignment * kAlignment;
  void** const memory = reinterpret_cast<void**>(aligned);
  memory[-1] = all;
  return memory;
}

int64_t machine_memory() {
#ifdef _SC_PHYS_PAGES
  const int64_t pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  if (pages > 0 && size > 0) return pages * size;
#endif
  return std::numeric_limits<int64_t>::max();
}

int64_t decide() {
  const char* given = std::getenv("MYOPS_MAX_BYTES");
  if (given == nullptr || *given == '\0') return machine_memory();
  int64_t bytes = 0;
  bool good = true;
  for (const char* digit = given; good && *digit != '\0'; ++digit) {
    good = *digit >= '0' && *digit <= '9' && !__builtin_mul_overflow(bytes, 10, &bytes) &&
           !__builtin_add_overflow(bytes, *digit - '0', &bytes);
  }
  if (!good || bytes == 0) {
    throw Error(str("MYOPS_MAX_BYTES: got ", quoted(given),
                    ", expected a number of bytes from 1 to ", std::numeric_limits<int64_t>::max(),
                    ". Unset it to allow all memory of the machine"));
  }
  return bytes;
}

}  // namespace

int64_t max_bytes() {
  static const int64_t chosen = decide();
  return chosen;
}

void Budget::refuse(const std::string& op, const std::string& argument, const std::string& got,
                    size_t bytes) const {
  const int64_t left = left_.load();
  const std::string beside =
      left < limit_ ? str(" beside the ", limit_ - left, " that the call has taken") : "";
  fail(op, argument, str(got, " (", bytes, " bytes)"),
       str("at most ", left, " bytes", beside, "; MYOPS_MAX_BYTES sets the limit"));
}

Scratch::Scratch(size_t bytes) : memory_(nullptr, Free{bytes, nullptr}) {
  Budget().take("myops", "prepared inputs", "scratch memory", bytes);
  memory_.reset(allocate(bytes));
}

Scratch::Scratch(size_t bytes, const std::string& op, Budget& budget)
    : memory_(nullptr, Free{bytes, &budget}) {
  if (!budget.try_take(bytes)) budget.refuse(op, "inputs", "scratch memory", bytes);
  try {
    memory_.reset(allocate(bytes));
  } catch (...) {
    budget.give_back(bytes);
    throw;
  }
}

void Scratch::Free::operator()(void* memory) const {
  if (memory != nullptr) std::free(static_cast<void**>(memory)[-1]);
  if (budget != nullptr) budget->give_back(bytes);
}

}  // namespace myops
