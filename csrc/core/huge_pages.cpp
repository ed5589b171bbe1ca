#include "huge_pages.h"

#include <cstdint>
#include <cstdlib>
#include <string>

#include "myops/error.h"

#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif

namespace myops {
namespace {

constexpr size_t kLarge = 4 << 20;  // bytes; the same threshold as NumPy's

bool decide_huge_pages() {
  const char* wanted = std::getenv("MYOPS_HUGE_PAGES");
  if (wanted == nullptr || *wanted == '\0') return true;
  const std::string text(wanted);
  if (text == "0" || text == "1") return text == "1";
  throw Error(str("MYOPS_HUGE_PAGES: got ", quoted(text), ", expected 0 or 1"));
}

}  // namespace

void ask_for_huge_pages([[maybe_unused]] void* data, size_t bytes) {
  if (bytes < kLarge) return;
  static const bool wanted = decide_huge_pages();
  if (!wanted) return;
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t kPage = 4096;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + kPage - 1) / kPage * kPage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / kPage * kPage;
  (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace myops
