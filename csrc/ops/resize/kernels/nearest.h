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
    if (copies_rows(depth)) return copy_rows(begin, end, source, target);
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
  // Whether four elements of 8 bytes are stored together, which takes half the time.
  static constexpr bool kFours = sizeof(T) == 8 && MYOPS_VECTOR_BYTES >= 32;

  // Whether a slab of the level is one row that gather_ or byte_shuffle_ makes.
  bool gathers_rows(size_t depth) const {
    const Level<Wide>& level = plan_.levels[depth];
    return (gather_ != nullptr || byte_shuffle_ != nullptr) && depth + 2 == plan_.levels.size() &&
           level.blocks == 1 && !level.taps.has_empty;
  }

  // Whether a slab of the level is one row, of which few elements are copied together.
  bool copies_rows(size_t depth) const {
    const Level<Wide>& level = plan_.levels[depth];
    return depth + 2 == plan_.levels.size() && level.blocks == 1 &&
           plan_.levels.back().in_volume < kRun && !level.taps.has_empty &&
           !plan_.levels.back().taps.has_empty;
  }

  // Rows of the level before the last.
  void copy_rows(int64_t begin, int64_t end, const T* source, T* target) const {
    const Level<Wide>& level = plan_.levels[plan_.levels.size() - 2];
    const int64_t in = level.in_volume, out = level.out_volume, rows = level.taps.input;
    const int64_t* index = level.taps.index.data();
    with_chunk([&](const auto& copy) {
      for (int64_t o = begin; o < end; ++o, target += out) {
        if (out >= kRun && o > begin && index[o] == index[o - 1]) {
          copy_run(target - out, out, target);
        } else {
          copy(0, last_columns(), source + index[o] * in, o + 1 < end && index[o] + 1 < rows,
               target);
        }
      }
    });
  }

  int64_t last_columns() const { return plan_.levels.back().taps.output; }

  // Calls run(copy), where copy(begin, end, source, inside, target) copies outputs [begin, end) of
  // the last level, each of fewer bytes than a vector, in chunks that are less than twice as long.
  // What is too much is overwritten; only with `inside` more than the row may be read and written.
  template <class Run>
  void with_chunk(const Run& run) const {
    const TapTable<Wide>& taps = plan_.levels.back().taps;
    const int64_t bytes = plan_.levels.back().in_volume * kBytes;
    const auto call = [&, index = taps.index.data(), input = taps.input](auto size, auto chunk) {
      run([=](int64_t begin, int64_t end, const T* source, bool inside, T* target) MYOPS_INLINED {
        constexpr int64_t kChunk = chunk / kBytes;
        int64_t whole = end;
        if (kChunk > 1 && !inside) {
          const bool ascends = index[begin] <= index[end - 1];
          whole = ascends ? std::max(begin, end - (kChunk - 1) / size) : begin;
          while (whole > begin && (input - index[whole - 1]) * size < kChunk) --whole;
        }
        int64_t o = begin;
        if constexpr (kChunk == 1) {  // one element
          o = copy_fours(begin, whole, source, index, target);
          target += o - begin;
        }
        for (; o < whole; ++o, target += size) {
          std::memcpy(static_cast<void*>(target), source + index[o] * size, chunk);
        }
        for (; o < end; ++o, target += size) {
          std::copy_n(source + index[o] * size, static_cast<int64_t>(size), target);
        }
      });
    };
    const int64_t size = plan_.levels.back().in_volume;
    if (size == 1)
      return call(std::integral_constant<int64_t, 1>(), std::integral_constant<int64_t, kBytes>());
    if (bytes <= 4) return call(size, std::integral_constant<int64_t, 4>());
    if (bytes <= 8) return call(size, std::integral_constant<int64_t, 8>());
    if (bytes <= 16) return call(size, std::integral_constant<int64_t, 16>());
    if (bytes <= 32) return call(size, std::integral_constant<int64_t, 32>());
    call(size, std::integral_constant<int64_t, 64>());
  }

  // Copies outputs [begin, end), four at a time; returns the first that is left.
  static int64_t copy_fours(int64_t begin, int64_t end, const T* source, const int64_t* index,
                            T* target) {
    if constexpr (kFours) {
      for (; begin + 4 <= end; begin += 4, target += 4) {
        const int64_t* at = index + begin;
        store(target, Lanes<T, 4>{source[at[0]], source[at[1]], source[at[2]], source[at[3]]});
      }
    }
    return begin;
  }

  // The same with gather_ or byte_shuffle_.
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
    if (level.in_volume >= kRun || level.taps.has_empty) return false;
    with_chunk([&](const auto& copy) { copy(begin, end, source, false, target); });
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
