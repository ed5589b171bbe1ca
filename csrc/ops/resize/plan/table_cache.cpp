// At most 8 tables and 2 MiB for each library (docs/reliability.md states the number); a new table
// replaces the oldest. Locks are only tried: a thread that does not get the lock makes equal tables
// again. A process that was forked while another thread held the lock therefore still works.
#include "table_cache.h"

#include <array>
#include <cstring>
#include <mutex>
#include <shared_mutex>

namespace myops::resize {
namespace {

class TableCache {
 public:
  TableCache() = default;
  TableCache(const TableCache&) = delete;
  TableCache& operator=(const TableCache&) = delete;
  // A thread may still search while the process ends; it finds an empty cache.
  ~TableCache() {
    const std::unique_lock lock(mutex_);
    closed_ = true;
    for (Entry& entry : entries_) entry = Entry();
  }

  std::shared_ptr<const void> find(const Key& key) {
    const std::shared_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return nullptr;
    const Entry* entry = entry_of(key);
    return entry == nullptr ? nullptr : entry->tables;
  }

  void add(const Key& key, std::shared_ptr<const void> tables, int64_t bytes) {
    std::array<std::shared_ptr<const void>, kEntries> dropped;  // freed after the lock is released
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || closed_ || entry_of(key) != nullptr) return;
    for (size_t i = 0; i == 0 || bytes_ + bytes > kMostCachedBytes; ++i) {
      Entry& oldest = entries_[(next_ + i) % kEntries];
      dropped[i] = std::move(oldest.tables);
      bytes_ -= oldest.bytes;
      oldest = Entry();
    }
    entries_[next_] = Entry{key, std::move(tables), bytes};
    bytes_ += bytes;
    next_ = (next_ + 1) % kEntries;
  }

 private:
  struct Entry {
    Key key;
    std::shared_ptr<const void> tables;
    int64_t bytes = 0;
  };
  static constexpr size_t kEntries = 8;

  const Entry* entry_of(const Key& key) const {
    for (const Entry& entry : entries_) {
      if (entry.tables && entry.key == key) return &entry;
    }
    return nullptr;
  }

  std::shared_mutex mutex_;
  std::array<Entry, kEntries> entries_;
  size_t next_ = 0;  // the oldest
  int64_t bytes_ = 0;
  bool closed_ = false;
};

TableCache cache;

}  // namespace

Key key_of(const Request& request, SourceLayout layout, const void* maker) {
  const Settings& settings = request.settings;
  int64_t choices = 0;
  for (const auto choice :
       {static_cast<int>(settings.mode), static_cast<int>(settings.coordinates),
        static_cast<int>(settings.rounding), static_cast<int>(settings.policy),
        static_cast<int>(settings.antialias), static_cast<int>(settings.exclude_outside),
        static_cast<int>(settings.torch_arithmetic), static_cast<int>(layout)}) {
    choices = 8 * choices + choice;
  }
  Key key{static_cast<int64_t>(reinterpret_cast<intptr_t>(maker)), choices};
  const auto add_number = [&](double number) {
    int64_t word = 0;
    std::memcpy(&word, &number, sizeof word);
    key.push_back(word);
  };
  key.push_back(static_cast<int64_t>(request.x.size()));
  for (const Dim& dim : request.x) key.push_back(dim.value);
  key.push_back(static_cast<int64_t>(request.axes.size()));
  for (const int64_t axis : request.axes) key.push_back(axis);
  add_number(settings.cubic_a);
  add_number(settings.extrapolation_value);
  for (const List* list : {&request.roi, &request.scales, &request.sizes}) {
    key.push_back(list->present ? list->length : int64_t{0});
    if (!list->present) continue;
    for (const double number : *list->values) add_number(number);
  }
  return key;
}

std::shared_ptr<const void> find_tables(const Key& key) { return cache.find(key); }

void store_tables(const Key& key, std::shared_ptr<const void> tables, int64_t bytes) {
  if (bytes <= kMostCachedBytes) cache.add(key, std::move(tables), bytes);
}

}  // namespace myops::resize
