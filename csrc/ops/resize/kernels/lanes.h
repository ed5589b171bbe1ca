// Kernel "lanes": weighted sums along the fastest axis in memory. Several rows are transposed, so
// that a vector contains the same element of each row. A plain load then replaces the gather that a
// single row would need. This works for any number of taps, which may differ from output to output,
// and for every type and instruction set.
//
// A slab contains element i of kRows rows, or of half of them. The sums are those of slab_sum.h, in
// the same order.
#pragma once

#include "lane_table.h"

namespace myops::resize::MYOPS_ISA {

// Slabs of kVectors vectors from the elements [low, high) of as many rows as they have lanes. `end`
// is that of the memory that may be read.
template <int kVectors, class Wide, class From>
MYOPS_NOINLINE void pack(const From* const* rows, int64_t low, int64_t high, const From* end,
                         Wide* __restrict slabs) {
  constexpr int64_t L = kLanes<Wide>, kSlab = kVectors * L;
  slabs -= low * kSlab;
  for (int v = 0; v < kVectors; ++v) {
    const From* const* row = rows + v * L;
    Vector<Wide> x[L];
    if (high - low < L) {
#pragma GCC unroll 16
      for (int64_t i = 0; i < L; ++i) x[i] = load_within<Wide>(row[i] + low, high - low, end);
      transpose<Wide, L>(x);
      Wide* slab = slabs + low * kSlab + v * L;
#pragma GCC unroll 16
      for (int64_t i = 0; i < L; ++i, slab += kSlab) {
        if (low + i < high) store(slab, x[i]);
      }
      continue;
    }
    const auto block = [&](int64_t at) MYOPS_INLINED {
#pragma GCC unroll 16
      for (int64_t i = 0; i < L; ++i) x[i] = load_wide<Wide>(row[i] + at);
      transpose<Wide, L>(x);
#pragma GCC unroll 16
      for (int64_t i = 0; i < L; ++i) store(slabs + (at + i) * kSlab + v * L, x[i]);
    };
    int64_t at = low;
    for (; at + L <= high; at += L) block(at);
    if (at < high) block(high - L);  // some elements a second time
  }
}

// The element `at` of the first `count` rows from L slabs, each kSlab elements behind the other;
// `width` of the L elements are written.
template <int kVectors, class Wide, class Out>
MYOPS_NOINLINE void unpack(const Wide* slabs, int64_t count, int64_t width, Out* target,
                           int64_t pitch) {
  constexpr int64_t L = kLanes<Wide>, kSlab = kVectors * L;
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const int64_t rows = std::min<int64_t>(count - v * L, L);
    if (rows <= 0) return;
    if (width == 1) {
      if (pitch == 1 && rows == L) {
        store_narrow<Wide>(target + v * L, load(slabs + v * L));
        continue;
      }
      Out elements[L];
      store_narrow<Wide>(elements, load(slabs + v * L));
      for (int64_t i = 0; i < rows; ++i) target[(v * L + i) * pitch] = elements[i];
      continue;
    }
    Vector<Wide> x[L];
#pragma GCC unroll 16
    for (int64_t i = 0; i < L; ++i) x[i] = load(slabs + i * kSlab + v * L);
    transpose<Wide, L>(x);
    Out* to = target + v * L * pitch;
    if (width == L && rows == L) {
#pragma GCC unroll 16
      for (int64_t i = 0; i < L; ++i, to += pitch) store_narrow<Wide>(to, x[i]);
      continue;
    }
    if (rows == L) {
#pragma GCC unroll 16
      for (int64_t i = 0; i < L; ++i, to += pitch) store_part<Wide>(to, x[i], width);
      continue;
    }
    Wide parts[L][L];
    std::memcpy(parts, x, sizeof parts);
    for (int64_t i = 0; i < rows; ++i, to += pitch) {
      if (width == L) {
        store_narrow<Wide>(to, load(parts[i]));
      } else {
        store_part<Wide>(to, load(parts[i]), width);
      }
    }
  }
}

// The sum of one output element in each lane. at(place): where the slab of a tap begins, after
// `source`. kTaps: 0 for `places`, a multiple of four.
template <int kTaps, int kVectors, class Wide, class At>
MYOPS_INLINE void sum_lanes(const Wide* weight, int64_t places, const Wide* source, const At& at,
                            Wide* __restrict target) {
  using V = Vector<Wide>;
  constexpr int64_t L = kLanes<Wide>;
  constexpr int kFirst = kTaps > 0 ? kTaps : 4;
  V sums[kVectors] = {};
  if (kTaps > 0 || places == 4) {
    const Wide* slab = source + at(0);
    V w = broadcast(weight[0]);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[v] = w * load(slab + v * L);
#pragma GCC unroll 4
    for (int k = 1; k < kFirst; ++k) {
      slab = source + at(k);
      w = broadcast(weight[k]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[v] = fma(w, load(slab + v * L), sums[v]);
    }
  } else {
    for (int64_t begin = 0; begin < places; begin += kTermsTogether) {
      const int64_t end = std::min(places, begin + kTermsTogether);
      V parts[4][kVectors] = {};
      for (int64_t first = begin; first < end; first += 4) {
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) {
          const Wide* slab = source + at(first + k);
          const V w = broadcast(weight[first + k]);
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) parts[k][v] = fma(w, load(slab + v * L), parts[k][v]);
        }
      }
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const V sum = (parts[0][v] + parts[2][v]) + (parts[1][v] + parts[3][v]);
        sums[v] = begin == 0 ? sum : sums[v] + sum;
      }
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) store(target + v * L, sums[v]);
}

// What sum_block() reads.
template <class Wide>
struct LaneSource {
  const LaneTable<Wide>& table;
  const Wide* slabs;  // slab 0 of the axis, whether it is there or not
  int64_t zero;       // from there to a slab of zeros
};

// The elements of the outputs [begin, end), each in a slab; of kStep channels together, which share
// what is loaded for a tap.
template <int kTaps, int kVectors, int kStep, class Wide>
MYOPS_NOINLINE void sum_block(const LaneSource<Wide>& source, int64_t begin, int64_t end,
                              Wide* sums) {
  constexpr int64_t kSlab = kVectors * kLanes<Wide>;
  const LaneTable<Wide>& table = source.table;
  const int64_t step = table.step(), size = step * kSlab, zero = source.zero;
  for (int64_t o = begin; o < end; ++o) {
    const int64_t place = kTaps > 0 ? o * kTaps : table.place(o);
    const int64_t places = kTaps > 0 ? kTaps : table.place(o + 1) - place;
    const int32_t* slab = table.slab() + place;
    for (int64_t channel = 0; channel < step; channel += kStep, sums += kStep * kSlab) {
      sum_lanes<kTaps, kVectors * kStep>(
          table.weight() + place, places, source.slabs + channel * kSlab,
          [&](int64_t k) MYOPS_INLINED -> int64_t { return slab[k] < 0 ? zero : slab[k] * size; },
          sums);
    }
  }
}

template <class Wide>
class LaneSum {
 public:
  static constexpr int64_t kRows = LaneTable<Wide>::kRows;

  LaneSum(const KernelContext& context, const LaneTable<Wide>& table, const TapTable<Wide>& taps)
      : table_(table),
        low_(taps.low * table.step()),
        width_(std::max<int64_t>(taps.high + 1 - taps.low, 0) * table.step()),
        slabs_(context.scratch_array<Wide>(fixed() + table.widest_tile() * table.step() * kRows)) {
    std::fill_n(slabs_.data(), fixed(), Wide(0));
  }

  // Rows of a result, `pitch` elements apart, from as many source rows, which are in order in
  // memory.
  template <class From, class Out>
  void rows(int64_t count, const From* const* sources, Out* target, int64_t pitch) const {
    constexpr int kVectors = static_cast<int>(kRows / kLanes<Wide>);
    for (int64_t row = 0; row < count;) {
      const int64_t left = count - row;
      int64_t made = 0;
      if constexpr (kVectors > 1) {
        if (left <= kRows / 2) made = group<kVectors / 2>(left, sources + row, target, pitch);
      }
      if (made == 0) made = group<kVectors>(left, sources + row, target, pitch);
      row += made;
      target += made * pitch;
    }
  }

 private:
  // Elements of zeros and of sums.
  int64_t fixed() const { return table_.step() * (1 + kLanes<Wide>)*kRows; }

  // As many rows as there are lanes; if there are fewer, the last one again in the other lanes.
  template <int kVectors, class From, class Out>
  int64_t group(int64_t left, const From* const* sources, Out* target, int64_t pitch) const {
    constexpr int64_t kSlab = kVectors * kLanes<Wide>;
    const int64_t count = std::min(left, kSlab);
    const From* rows[kSlab];
    for (int64_t i = 0; i < count; ++i) rows[i] = sources[i] + low_;
    std::fill(rows + count, rows + kSlab, rows[count - 1]);
    const From* end = rows[kSlab - 1] + width_;
    Wide* slabs = slabs_.data() + fixed();
    for (const LaneTile& tile : table_.tiles()) {
      if (table_.compact()) {
        pack_places<kSlab>(tile, rows, slabs);
      } else {
        pack<kVectors>(rows, tile.low * table_.step(), tile.high * table_.step(), end, slabs);
      }
      sum_tile<kVectors>(tile, slabs, count, target, pitch);
    }
    return count;
  }

  // A slab for each place of a tap and each element of a step.
  template <int64_t kSlab, class From>
  void pack_places(const LaneTile& tile, const From* const* rows, Wide* slabs) const {
    const int64_t step = table_.step();
    for (int64_t k = table_.place(tile.begin); k < table_.place(tile.end); ++k) {
      const int64_t from = table_.index()[k] * step;
      for (int64_t channel = 0; channel < step; ++channel, slabs += kSlab) {
        for (int64_t i = 0; i < kSlab; ++i) {
          slabs[i] = from < 0 ? Wide(0) : static_cast<Wide>(rows[i][from + channel]);
        }
      }
    }
  }

  template <int kVectors, class Out>
  void sum_tile(const LaneTile& tile, const Wide* slabs, int64_t count, Out* target,
                int64_t pitch) const {
    // Four partial sums of each vector must fit the registers.
    constexpr int kMost = MYOPS_REGISTERS / 8 / kVectors;
    if constexpr (kMost >= 4) {
      if (table_.step() % 4 == 0) return sum_tile<kVectors, 4>(tile, slabs, count, target, pitch);
    }
    if constexpr (kMost >= 3) {
      if (table_.step() % 3 == 0) return sum_tile<kVectors, 3>(tile, slabs, count, target, pitch);
    }
    sum_tile<kVectors, 1>(tile, slabs, count, target, pitch);
  }

  template <int kVectors, int kStep, class Out>
  void sum_tile(const LaneTile& tile, const Wide* slabs, int64_t count, Out* target,
                int64_t pitch) const {
    constexpr int64_t L = kLanes<Wide>, kSlab = kVectors * L;
    constexpr decltype(&sum_block<0, kVectors, kStep, Wide>) kSums[] = {
        sum_block<0, kVectors, kStep, Wide>, sum_block<1, kVectors, kStep, Wide>,
        sum_block<2, kVectors, kStep, Wide>, sum_block<3, kVectors, kStep, Wide>,
        sum_block<4, kVectors, kStep, Wide>};
    const int64_t step = table_.step();
    const Wide* first = slabs - table_.low(tile) * step * kSlab;
    const LaneSource<Wide> source{table_, first, slabs_.data() - first};
    Wide* sums = slabs_.data() + table_.step() * kRows;
    const int64_t outputs = std::min(L, tile.end - tile.begin), elements = outputs * step;
    const int64_t width = std::min(L, elements);
    for (int64_t at = tile.begin; at < tile.end; at += L) {
      const int64_t from = std::min(at, tile.end - outputs);  // the last ones a second time
      kSums[table_.few()](source, from, from + outputs, sums);
      for (int64_t i = 0; i < elements; i += L) {
        const int64_t first = std::min(i, elements - width);
        unpack<kVectors>(sums + first * kSlab, count, width, target + from * step + first, pitch);
      }
    }
  }

  const LaneTable<Wide>& table_;
  int64_t low_, width_;  // of what is read of a row
  // Zeros for padded taps, sums, and the slabs of a tile.
  ScratchArray<Wide> slabs_;
};

}  // namespace myops::resize::MYOPS_ISA
