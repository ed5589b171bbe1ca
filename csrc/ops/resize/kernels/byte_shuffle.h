// Nearest along the fastest axis in memory, for elements smaller than the lanes of gather.h:
// sixteen bytes of the result at a time are shuffled from sixteen consecutive source bytes or, for
// downscaling, from several such pieces. Their positions are in a table, made once for equal calls.
#pragma once

#include "gather.h"

namespace myops::resize::MYOPS_ISA {

class ByteShuffle {
 public:
  // `run`: bytes from one index of the axis to the next.
  template <class Weight>
  ByteShuffle(const TapTable<Weight>& taps, int64_t run)
      : size_(taps.output * run), source_size_(taps.input * run) {
    for (int64_t chunk = 0; chunk < chunks(size_) && fits_; ++chunk) add_chunk(taps, run, chunk);
  }

  // Whether `rows` rows are enough for a table, which takes as long as copying some of them element
  // by element.
  template <class Weight>
  static bool supports(const TapTable<Weight>& taps, int64_t run, int64_t rows) {
    constexpr int64_t kFewestRows = 8;
    return kShuffles && rows >= kFewestRows && !taps.has_empty && run < MYOPS_VECTOR_BYTES &&
           std::min(taps.input, taps.output) * run >= kChunk &&
           std::max(taps.input, taps.output) * run <= std::numeric_limits<int32_t>::max();
  }
  // The largest memory of a table, for rows of `size` bytes.
  static double bytes(int64_t size) {
    return static_cast<double>(chunks(size)) * kMostPieces * (kChunk + sizeof(int32_t));
  }

  bool fits() const { return fits_; }  // false: the axis shrinks too much for copy()

  // Writes the bytes [begin, end) of a row to `target`.
  void copy(int64_t begin, int64_t end, const uint8_t* source, uint8_t* target) const {
    target -= begin;
    if (used_ == 1) return run<1>(begin, end, source, target);
    if (used_ == 2) return run<2>(begin, end, source, target);
    if (used_ == 3) return run<3>(begin, end, source, target);
    run<4>(begin, end, source, target);
  }

 private:
  static constexpr int64_t kChunk = 16, kMostPieces = 4;
  static constexpr uint8_t kNothing = 128;
  using Chunk = Lanes<uint8_t, kChunk>;
  using Chunks = Lanes<uint8_t, MYOPS_VECTOR_BYTES>;

  // For each chunk: where sixteen bytes of the source begin, and for each byte of the result its
  // index among them, or kNothing.
  struct Piece {
    std::vector<int32_t> first;
    std::vector<uint8_t> index;
  };

  static int64_t chunks(int64_t size) { return (size + kChunk - 1) / kChunk; }
  // Where a chunk of the result begins; the last chunk ends with the row and may overlap the one
  // before.
  int64_t begin_of(int64_t chunk) const { return std::min(chunk * kChunk, size_ - kChunk); }

  template <class Weight>
  void add_chunk(const TapTable<Weight>& taps, int64_t run, int64_t chunk);
  template <int kPieces>
  void run(int64_t begin, int64_t end, const uint8_t* source, uint8_t* target) const;

  int64_t size_, source_size_;  // bytes of a row of the result and of the source
  bool fits_ = true;
  int64_t used_ = 0;  // the largest number of pieces of a chunk; unused pieces give 0
  Piece pieces_[kMostPieces];
};

template <class Weight>
void ByteShuffle::add_chunk(const TapTable<Weight>& taps, int64_t run, int64_t chunk) {
  int64_t from[kChunk];
  int64_t output = begin_of(chunk) / run, byte = begin_of(chunk) - output * run;
  for (int64_t& place : from) {
    place = taps.index[output] * run + byte;
    if (++byte == run) byte = 0, ++output;
  }
  constexpr int64_t kMoved = std::numeric_limits<int64_t>::max();
  for (int64_t moved = 0, number = 0; moved < kChunk; ++number) {
    if (number == kMostPieces) {
      fits_ = false;
      return;
    }
    Piece& piece = pieces_[number];
    if (piece.first.empty()) {
      piece.first.resize(static_cast<size_t>(chunks(size_)));
      piece.index.resize(static_cast<size_t>(chunks(size_) * kChunk), kNothing);
    }
    const int64_t first = std::min(*std::min_element(from, from + kChunk), source_size_ - kChunk);
    piece.first[chunk] = static_cast<int32_t>(first);
    for (int64_t i = 0; i < kChunk; ++i) {
      if (from[i] >= first + kChunk) continue;
      piece.index[chunk * kChunk + i] = static_cast<uint8_t>(from[i] - first);
      from[i] = kMoved;
      ++moved;
    }
    used_ = std::max(used_, number + 1);
  }
}

template <int kPieces>
void ByteShuffle::run(int64_t begin, int64_t end, const uint8_t* source, uint8_t* target) const {
  constexpr int64_t kMany = MYOPS_VECTOR_BYTES / kChunk;
  const int32_t* first[kPieces];
  const uint8_t* index[kPieces];
  for (int k = 0; k < kPieces; ++k) {
    first[k] = pieces_[k].first.data(), index[k] = pieces_[k].index.data();
  }
  int64_t chunk = begin / kChunk;
  const auto make = [&](auto vector) {  // makes as many chunks as fit the vector
    using V = decltype(vector);
    V all{};
    for (int k = 0; k < kPieces; ++k) {
      all |= shuffle_bytes(load_sixteens<V>(source, first[k] + chunk),
                           load_as<V>(index[k] + chunk * kChunk));
    }
    return all;
  };
  const auto make_part = [&] {  // makes the part of a chunk that lies in [begin, end)
    const int64_t at = begin_of(chunk), from = std::max(at, begin), to = std::min(at + kChunk, end);
    const Chunk all = make(Chunk());
    if (to - from == kChunk) return store(target + at, all);
    uint8_t bytes[kChunk];
    store(bytes, all);
    std::copy(bytes + (from - at), bytes + (to - at), target + from);
  };
  if (chunk * kChunk < begin) make_part(), ++chunk;
  for (; (chunk + kMany) * kChunk <= end; chunk += kMany) {
    store(target + chunk * kChunk, make(Chunks()));
  }
  for (; (chunk + 1) * kChunk <= end; ++chunk) store(target + chunk * kChunk, make(Chunk()));
  if (chunk * kChunk < end) make_part();
}

}  // namespace myops::resize::MYOPS_ISA
