#include "unmade_outputs.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace myops {
namespace {

constexpr size_t kPage = 4096;
// Of one output. Only addresses are reserved; memory is taken where a kernel writes. A system that
// limits addresses (RLIMIT_AS) gives the smaller number.
constexpr size_t kMost[] = {size_t{1} << 38, size_t{1} << 30};
constexpr size_t kMostStrings = 1 << 16;

// What the memory begins with. No kernel writes these bytes by chance: as numbers of any type they
// are neither small nor equal to each other.
constexpr unsigned char kMark[] = {0xa7, 0x5e, 0xc9, 0x83, 0xf1, 0x6b, 0x9d, 0xd4,
                                   0xb6, 0x7a, 0xe3, 0x95, 0xcb, 0x79, 0x8f, 0xda};

// Kept for the next call of a thread: reserving memory takes longer than a small kernel.
struct Spare {
  void* memory = nullptr;
  size_t bytes = 0;
  ~Spare() {
    if (memory != nullptr) munmap(memory, bytes);
  }
};
thread_local Spare spare;

void* map(size_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Whole pages; one more, so that there is one for an empty output.
size_t pages(DType dtype, const Shape& shape, size_t most) {
  return (std::min(byte_count(shape, dtype), most) / kPage + 1) * kPage;
}

}  // namespace

void UnmadeOutputs::reserve(const std::vector<std::pair<DType, Shape>>& outputs) {
  size_t most = 0;
  for (size_t limit : kMost) {
    most = limit;
    size_t bytes = 0;
    for (const auto& [dtype, shape] : outputs) bytes += pages(dtype, shape, most);
    if (spare.bytes >= bytes) {
      memory_ = std::exchange(spare.memory, nullptr);
      bytes_ = std::exchange(spare.bytes, 0);
    } else {
      memory_ = map(bytes);
      bytes_ = memory_ == nullptr ? 0 : bytes;
    }
    if (memory_ != nullptr) break;
  }
  auto* next = static_cast<unsigned char*>(memory_);
  for (const auto& [dtype, shape] : outputs) {
    if (dtype == DType::String) {
      const size_t count = std::min(static_cast<size_t>(element_count(shape)), kMostStrings);
      strings_.emplace_back(count + 1);
      reserved_.push_back({strings_.back().data(), true});
    } else if (next == nullptr) {
      reserved_.push_back({nullptr, false});
    } else {
      std::memcpy(next, kMark, sizeof(kMark));
      reserved_.push_back({next, false});
    }
    if (next != nullptr) next += pages(dtype, shape, most);
  }
}

bool UnmadeOutputs::written(size_t number) const {
  const Reserved& memory = reserved_[number];
  if (memory.is_string) return !static_cast<const std::string*>(memory.data)->empty();
  return memory.data != nullptr && std::memcmp(memory.data, kMark, sizeof(kMark)) != 0;
}

UnmadeOutputs::~UnmadeOutputs() {
  bool clean = true;
  for (size_t i = 0; i < reserved_.size(); ++i) clean = clean && !written(i);
  if (clean && bytes_ > spare.bytes) {
    std::swap(memory_, spare.memory);
    std::swap(bytes_, spare.bytes);
  }
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

}  // namespace myops
