// Tables of earlier calls. A call on a small picture would take longer for its tables than for the
// picture, and where one result follows another, making them again finds all caches cold.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "geometry.h"

namespace myops::resize {

// Everything that the tables of a call follow from, as words.
class Key {
 public:
  // `maker`: the address of something that only those have in common who make equal tables.
  Key(const Request& request, bool channels_last, const void* maker);

  bool is_valid() const { return size_ > 0; }  // not where the words are too many
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

// The tables of an earlier call with this key, or null. Never waits.
std::shared_ptr<const void> find_tables(const Key& key);

// `bytes`: what the tables take at most. What is too large is not count.
void store_tables(const Key& key, std::shared_ptr<const void> tables, int64_t bytes);

}  // namespace myops::resize
