// Nearest along the fastest axis in memory, for elements shorter than the lanes of gather.h:
// sixteen bytes of the result at a time are shuffled out of sixteen neighbours in the source or,
// where the axis shrinks, out of twice sixteen. Where they lie is written in a table, made once for
// equal calls.
#pragma once

#include "gather.h"

namespace myops::resize::MYOPS_ISA {

class Shuffles {
 public:
  // `run`: bytes from one index of the axis to the next.
  template <class Weight>
  Shuffles(const Taps<Weight>& taps, int64_t run)
      : size_(taps.output * run),
        room_(taps.input * run),
        first_(static_cast<size_t>(chunks(size_))),
        second_(first_.size()),
        index_(first_.size() * kChunk) {
    fits_ = true;
    for (int64_t chunk = 0; fits_ && chunk < chunks(size_); ++chunk) add_chunk(taps, run, chunk);
  }

  // Whether `rows` rows are worth a table, which costs as much as moving some of them one by one.
  template <class Weight>
  static bool takes(const Taps<Weight>& taps, int64_t run, int64_t rows) {
    constexpr int64_t kFewestRows = 8;
    return kShuffles && rows >= kFewestRows && !taps.has_empty && run < MYOPS_VECTOR_BYTES &&
           std::min(taps.input, taps.output) * run >= kChunk &&
           std::max(taps.input, taps.output) * run <= std::numeric_limits<int32_t>::max();
  }
  // What a table takes, for rows of `size` bytes.
  static double bytes(int64_t size) {
    return static_cast<double>(chunks(size)) * (kChunk + 2 * sizeof(int32_t));
  }

  bool fits() const { return fits_; }  // else the axis shrinks too much, and there is no copy()

  // The bytes [begin, end) of a row go to `target`. `next`: asked for on the way.
  void copy(int64_t begin, int64_t end, const uint8_t* source, uint8_t* target,
            const Upcoming& next) const {
    if (is_wide_) return run<true>(begin, end, source, target - begin, next);
    run<false>(begin, end, source, target - begin, next);
  }

 private:
  static constexpr int64_t kChunk = 16;
  using Chunk = Lanes<uint8_t, kChunk>;
  using Chunks = Lanes<uint8_t, MYOPS_VECTOR_BYTES>;

  static int64_t chunks(int64_t size) { return (size + kChunk - 1) / kChunk; }
  // Where a chunk of the result begins: the last one ends with the row.
  int64_t begin_of(int64_t chunk) const { return std::min(chunk * kChunk, size_ - kChunk); }

  template <class Weight>
  void add_chunk(const Taps<Weight>& taps, int64_t run, int64_t chunk);
  template <bool kWide>
  void run(int64_t begin, int64_t end, const uint8_t* source, uint8_t* target,
           const Upcoming& next) const;

  int64_t size_, room_;   // bytes of a row of the result and of the source
  bool is_wide_ = false;  // some chunks are made from twice sixteen bytes
  bool fits_;
  // Of each chunk: where the first sixteen bytes of the source begin, and the second; for each byte
  // the place in the first, or in the second and 128.
  std::vector<int32_t> first_, second_;
  std::vector<uint8_t> index_;
};

template <class Weight>
void Shuffles::add_chunk(const Taps<Weight>& taps, int64_t run, int64_t chunk) {
  int64_t from[kChunk];
  int64_t output = begin_of(chunk) / run, byte = begin_of(chunk) - output * run;
  int64_t least = room_, rest = room_;  // the smallest, and that of those behind sixteen bytes
  for (int64_t& place : from) {
    place = taps.index[output] * run + byte;
    least = std::min(least, place);
    if (++byte == run) byte = 0, ++output;
  }
  const int64_t first = std::min(least, room_ - kChunk);
  for (const int64_t place : from) {
    if (place >= first + kChunk) rest = std::min(rest, place);
  }
  const int64_t second = rest < room_ ? std::min(rest, room_ - kChunk) : first;
  is_wide_ |= rest < room_;
  for (int64_t i = 0; i < kChunk; ++i) {
    const bool far = from[i] >= first + kChunk;
    const int64_t place = from[i] - (far ? second : first);
    fits_ &= place < kChunk;
    index_[chunk * kChunk + i] = static_cast<uint8_t>(place + (far ? 128 : 0));
  }
  first_[chunk] = static_cast<int32_t>(first);
  second_[chunk] = static_cast<int32_t>(second);
}

// One chunk, or as many as V has room for.
template <bool kWide, class V>
MYOPS_INLINE V shuffled(const uint8_t* source, const int32_t* first, const int32_t* second,
                        const uint8_t* index) {
  const V at = load_as<V>(index), low = shuffle_bytes(load_sixteens<V>(source, first), at);
  if constexpr (!kWide) return low;
  return low | shuffle_bytes(load_sixteens<V>(source, second), at ^ 128);
}

template <bool kWide>
void Shuffles::run(int64_t begin, int64_t end, const uint8_t* source, uint8_t* target,
                   const Upcoming& given) const {
  constexpr int64_t kMany = MYOPS_VECTOR_BYTES / kChunk;
  const Upcoming next = given;
  const int32_t *first = first_.data(), *second = second_.data();
  const uint8_t* index = index_.data();
  int64_t chunk = begin / kChunk;
  const auto make = [&](auto vector) {
    return shuffled<kWide, decltype(vector)>(source, first + chunk, second + chunk,
                                             index + chunk * kChunk);
  };
  const auto part = [&] {
    uint8_t bytes[kChunk];
    store(bytes, make(Chunk()));
    const int64_t at = begin_of(chunk);
    const int64_t from = std::max(at, begin), to = std::min(at + kChunk, end);
    std::copy(bytes + (from - at), bytes + (to - at), target + from);
  };
  if (chunk * kChunk < begin) part(), ++chunk;
  for (; (chunk + kMany) * kChunk <= end; chunk += kMany) {
    uint8_t* to = target + chunk * kChunk;
    next.ask(chunk * kChunk, MYOPS_VECTOR_BYTES);
    expect_store(to);
    store(to, make(Chunks()));
  }
  for (; (chunk + 1) * kChunk <= end; ++chunk) store(target + chunk * kChunk, make(Chunk()));
  if (chunk * kChunk < end) {
    if (end == size_ && begin_of(chunk) >= begin)
      store(target + begin_of(chunk), make(Chunk()));
    else
      part();
  }
}

}  // namespace myops::resize::MYOPS_ISA
