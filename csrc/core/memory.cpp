#include "myops/memory.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>

#include "huge_pages.h"
#include "myops/error.h"

#if defined(__SANITIZE_ADDRESS__)  // GCC
#define MYOPS_ADDRESS_SANITIZER 1
#elif defined(__has_feature)  // Clang
#define MYOPS_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#else
#define MYOPS_ADDRESS_SANITIZER 0
#endif

namespace myops {
namespace {

constexpr size_t kAlignment = 64;

// Header in front of scratch memory: the address and size of the malloc() block.
struct Block {
  void* start;
  size_t bytes;
};

// Freed blocks, reused by later calls. With malloc() alone, the memory that a call frees at once
// can exceed what glibc retains at the top of its heap. Each call then gets new pages from the
// system, and took 1.5 times as long (deform_conv2d of 1x64x64x64).
class ScratchPool {
 public:
  // Takes a block of at least `bytes` and at most about twice as many; null if there is none.
  Block take(size_t bytes) {
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    for (size_t i = 0; lock && i < count_; ++i) {
      const Block block = blocks_[i];
      if (block.bytes < bytes || block.bytes / 2 > bytes) continue;
      remove(i);
      return block;
    }
    return {nullptr, 0};
  }

  void put(Block block) {
    {
      const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
      if (lock && block.bytes >= kLeast && block.bytes <= kMost) {
        while (count_ == kBlocks || held_ + block.bytes > kMost) {  // frees the oldest block
          std::free(blocks_[0].start);
          remove(0);
        }
        blocks_[count_++] = block;
        held_ += block.bytes;
        return;
      }
    }
    std::free(block.start);
  }

  ~ScratchPool() {
    while (count_ > 0) {
      std::free(blocks_[0].start);
      remove(0);
    }
  }

 private:
#if MYOPS_ADDRESS_SANITIZER
  static constexpr size_t kMost = 0;  // so that AddressSanitizer detects accesses behind each block
#else
  static constexpr size_t kMost = 4 << 20;
#endif
  static constexpr size_t kLeast = 16 << 10, kBlocks = 16;

  void remove(size_t at) {
    held_ -= blocks_[at].bytes;
    std::copy(blocks_ + at + 1, blocks_ + count_, blocks_ + at);
    --count_;
  }

  std::mutex mutex_;  // only locked by try_lock
  Block blocks_[kBlocks];
  size_t count_ = 0, held_ = 0;
};

ScratchPool& scratch_pool() {
  static ScratchPool blocks;
  return blocks;
}

Block& block_of(void* memory) { return static_cast<Block*>(memory)[-1]; }

// Aligned here: glibc's aligned allocation does not reuse the hole that a block of the same size
// has left, so that calls with several buffers needed more and more memory and time.
void* allocate(size_t bytes) {
  constexpr size_t more = kAlignment + sizeof(Block);
  if (bytes > SIZE_MAX - more) throw std::bad_alloc();
  Block block = scratch_pool().take(bytes + more);
  if (block.start == nullptr) {
    block = {std::malloc(bytes + more), bytes + more};
    if (block.start == nullptr) throw std::bad_alloc();
    ask_for_huge_pages(block.start, block.bytes);
  }
  const uintptr_t first = reinterpret_cast<uintptr_t>(block.start) + sizeof(Block);
  void* const memory = reinterpret_cast<void*>((first + kAlignment - 1) / kAlignment * kAlignment);
  block_of(memory) = block;
  return memory;
}

}  // namespace

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
  if (memory != nullptr) scratch_pool().put(block_of(memory));
  if (budget != nullptr) budget->give_back(bytes);
}

}  // namespace myops
