// Caches the tables of earlier calls. For a small image, making the tables would take longer than
// the image itself, and would evict the image from the CPU's caches.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "../spec/geometry.h"

namespace myops::resize {

// All arguments that determine the tables of a call, as words.
class Key {
 public:
  // `maker`: an address that identifies the code that makes the tables.
  Key(const Request& request, bool channels_last, const void* maker);

  bool is_valid() const { return size_ > 0; }  // false: the arguments need too many words
  bool operator==(const Key& other) const;

  Key() = default;

 private:
  void add(int64_t word);
  void add(double number);
  void add(const List& list);

  static constexpr size_t kWords = 40;  // a request of rank 5 with a roi has 31
  size_t size_ = 0;
  bool too_long_ = false;
  std::array<int64_t, kWords> words_{};
};

// The tables of an earlier call with this key, or null. Never blocks.
std::shared_ptr<const void> find_tables(const Key& key);

// `bytes`: an upper bound of their size. Tables that are too large are not cached.
void store_tables(const Key& key, std::shared_ptr<const void> tables, int64_t bytes);

}  // namespace myops::resize
