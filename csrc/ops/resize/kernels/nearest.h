// Kernels "nearest_slabs", "nearest_gather", "nearest_byte_shuffle" and "nearest_copy": elements
// are copied without arithmetic; a repeated row is copied from its first occurrence.
#pragma once

#include "../plan/call_tables.h"

namespace myops::resize::MYOPS_ISA {

// NaN keeps its payload.
template <class T, class Wide>
class Nearest {
 public:
  // `outside`: the value where there is no element to copy.
  Nearest(const Tables<Wide>& tables, T outside)
      : plan_(tables.plan),
        gather_(tables.last.gather ? &*tables.last.gather : nullptr),
        byte_shuffle_(tables.byte_shuffle ? &*tables.byte_shuffle : nullptr),
        outside_(outside) {}

  // Writes the slabs [begin, end) of a level.
  void fill(size_t depth, int64_t begin, int64_t end, const T* source, T* target) const {
    const Level<Wide>& level = plan_.levels[depth];
    const TapTable<Wide>& taps = level.taps;
    const bool last = depth + 1 == plan_.levels.size();
    if (last && fill_row(begin, end, source, target)) return;
    if (gathers_rows(depth)) return fill_rows(begin, end, source, target);
    if (copies_short_rows(depth)) return copy_short_rows(begin, end, source, target);
    if (last && copy_runs(begin, end, source, target)) return;
    int64_t previous = -1;
    for (int64_t o = begin; o < end; ++o, target += level.out_volume) {
      const int64_t index = taps.count(o) == 0 ? -1 : taps.index[taps.first[o]];
      if (index < 0) {
        std::fill(target, target + level.out_volume, outside_);
      } else if (index == previous) {
        std::copy(target - level.out_volume, target, target);
      } else {
        copy_slab(depth, source + index * level.in_volume, target);
      }
      previous = index;
    }
  }

 private:
  static constexpr int64_t kBytes = sizeof(T);
  static constexpr int64_t kRun = MYOPS_VECTOR_BYTES / kBytes;  // elements of a vector
  static constexpr int64_t kRowsBytes = 32 << 10;               // of rows that are made together

  // Whether a slab of the level is one row that gather_ or byte_shuffle_ makes.
  bool gathers_rows(size_t depth) const {
    const Level<Wide>& level = plan_.levels[depth];
    return (gather_ != nullptr || byte_shuffle_ != nullptr) && depth + 2 == plan_.levels.size() &&
           level.blocks == 1 && !level.taps.has_empty;
  }

  // Whether a slab of the level is one short row, copied element by element.
  bool copies_short_rows(size_t depth) const {
    constexpr int64_t kShort = 32;
    const Level<Wide>& level = plan_.levels[depth];
    return depth + 2 == plan_.levels.size() && level.blocks == 1 && level.out_volume <= kShort &&
           plan_.levels.back().in_volume < kRun && !level.taps.has_empty &&
           !plan_.levels.back().taps.has_empty;
  }

  void copy_short_rows(int64_t begin, int64_t end, const T* source, T* target) const {
    const Level<Wide>&level = plan_.levels[plan_.levels.size() - 2], &last = plan_.levels.back();
    const int64_t *row = level.taps.index.data(), *column = last.taps.index.data();
    const int64_t run = last.in_volume, columns = last.taps.output;
    for (int64_t o = begin; o < end; ++o) {
      const T* from = source + row[o] * level.in_volume;
      if (run == 1) {
        for (int64_t c = 0; c < columns; ++c) *target++ = from[column[c]];
        continue;
      }
      for (int64_t c = 0; c < columns; ++c) {
        for (int64_t i = 0; i < run; ++i) *target++ = from[column[c] * run + i];
      }
    }
  }

  // Rows of the level before the last.
  void fill_rows(int64_t begin, int64_t end, const T* source, T* target) const {
    const Level<Wide>& level = plan_.levels[plan_.levels.size() - 2];
    const int64_t size = level.out_volume, input = level.in_volume;
    const int64_t bytes = size * kBytes;
    const int64_t* index = level.taps.index.data();
    constexpr bool kGathers = std::is_same_v<T, Wide> && kPermutes<Wide>;
    // Short rows are made together, equal ones again, which is as fast as copying them.
    const int64_t together = kGathers && bytes <= 1024 ? kRowsBytes / bytes : 1;
    for (int64_t o = begin; o < end; o += together, target += together * size) {
      if (together == 1 && o > begin && index[o] == index[o - 1]) {
        copy_run(target - size, size, target);
      } else if constexpr (kGathers) {
        const IndexedRows<Wide> rows{source, input, index + o};
        gather_->copy(0, size, {rows, std::min(together, end - o), target, size});
      } else {
        shuffle(0, size, source + index[o] * input, target);
      }
    }
  }

  // Elements [begin, end) of a row.
  void shuffle(int64_t begin, int64_t end, const T* source, T* target) const {
    byte_shuffle_->copy(begin * kBytes, end * kBytes, bytes_of(source), bytes_of(target));
  }

  static const uint8_t* bytes_of(const T* elements) {
    return reinterpret_cast<const uint8_t*>(elements);
  }
  static uint8_t* bytes_of(T* elements) { return reinterpret_cast<uint8_t*>(elements); }

  void copy_slab(size_t depth, const T* from, T* to) const {
    const Level<Wide>& level = plan_.levels[depth];
    if (depth + 1 == plan_.levels.size()) {
      std::copy(from, from + level.in_volume, to);
      return;
    }
    const Level<Wide>& next = plan_.levels[depth + 1];
    for (int64_t block = 0; block < level.blocks; ++block) {
      fill(depth + 1, 0, next.taps.output, from + block * next.taps.input * next.in_volume,
           to + block * next.taps.output * next.out_volume);
    }
  }

  // The last level, if elements are copied one by one.
  bool fill_row(int64_t begin, int64_t end, const T* source, T* target) const {
    const Level<Wide>& level = plan_.levels.back();
    if constexpr (std::is_same_v<T, Wide> && kPermutes<Wide>) {
      if (gather_ != nullptr) {
        constexpr int64_t kOnly = 0;
        const int64_t first = begin * level.in_volume;
        gather_->copy(first, end * level.in_volume, {{source, 0, &kOnly}, 1, target - first, 0});
        return true;
      }
    }
    if (byte_shuffle_ != nullptr) {
      shuffle(begin * level.in_volume, end * level.in_volume, source, target);
      return true;
    }
    if (level.in_volume != 1 || level.taps.has_empty) return false;
    const int64_t* index = level.taps.index.data() + begin;
    for (int64_t o = 0; o < end - begin; ++o) target[o] = source[index[o]];
    return true;
  }

  // The last level, if many elements are copied together, as with channels innermost.
  bool copy_runs(int64_t begin, int64_t end, const T* source, T* target) const {
    const Level<Wide>& level = plan_.levels.back();
    const int64_t run = level.in_volume;
    if (run < kRun || level.taps.has_empty) return false;
    for (int64_t o = begin; o < end; ++o, target += run) {
      copy_run(source + level.taps.index[o] * run, run, target);
    }
    return true;
  }

  const Plan<Wide>& plan_;
  const Gather<Wide>* gather_;       // of the last level, or null
  const ByteShuffle* byte_shuffle_;  // the same
  T outside_;
};

}  // namespace myops::resize::MYOPS_ISA
