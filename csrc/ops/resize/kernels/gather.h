// Weighted sums along the fastest axis in memory, kLanes elements of the result at a time, by the
// strategies of gather_table.h.
#pragma once

#include "gather_loops.h"

namespace myops::resize::MYOPS_ISA {

// Rows of a result, all made from the same columns of their own source rows. Several short rows are
// made together, so that the tables of the columns are loaded once.
template <class Sources, class Out>
struct GatherRows {
  Sources sources;  // [row]: element 0 of each source row
  int64_t count;
  Out* target;   // element 0 of the first row, made or not
  int64_t step;  // from one row of the target to the next
};

// Source rows by their indices.
template <class Wide>
struct IndexedRows {
  const Wide* source;
  int64_t size;  // of a row
  const int64_t* index;
  MYOPS_INLINE const Wide* operator[](int64_t row) const { return source + index[row] * size; }
};

// x[k][i] = from[at[i] + k] for k < kTaps. Not by gathering: neighbours are one load.
template <int kTaps>
MYOPS_INLINE void load_neighbours(const double* from, const int32_t* at, Vector<double>* x) {
  static_assert(kTaps == 2);
  load_pairs(from, at, x[0], x[1]);
}
template <int kTaps>
MYOPS_INLINE void load_neighbours(const float* from, const int32_t* at, Vector<float>* x) {
  if constexpr (kTaps == 2) return load_pairs(from, at, x[0], x[1]);
  constexpr auto kAll = std::make_integer_sequence<int, static_cast<int>(kLanes<float>)>();
  Vector<float> fours[4];
  for (int i = 0; i < 4; ++i) fours[i] = load_fours<float>(from, at + i);
  for (int k = 0; k < 2; ++k) {
    const auto pairs = [&](int i) MYOPS_INLINED {
      return k == 0 ? of_pairs<0>(fours[i], fours[i + 1], kAll)
                    : of_pairs<1>(fours[i], fours[i + 1], kAll);
    };
    const Vector<float> low = pairs(0), high = pairs(2);
    x[k] = of_pairs<0>(low, high, kAll);
    x[k + 2] = of_pairs<1>(low, high, kAll);
  }
}

template <class Wide>
class Gather {
 public:
  Gather(const TapTable<Wide>& taps, int64_t step) : table_(taps, step) {}

  int64_t elements() const { return table_.elements(); }

  // Makes the elements [begin, end) of each row.
  template <class From, class Out>
  void sum(int64_t begin, int64_t end, const GatherRows<const From* const*, Out>& rows) const {
    if (table_.width() == 4) return run<4>(begin, end, rows);
    run<2>(begin, end, rows);
  }
  // As sum(), for elements with one tap, which is copied.
  using Copied = GatherRows<IndexedRows<Wide>, Wide>;
  void copy(int64_t begin, int64_t end, const Copied& rows) const { run<0>(begin, end, rows); }

  using V = Vector<Wide>;
  using Table = GatherTable<Wide>;
  using Block = typename Table::Block;
  using Strategy = GatherStrategy;

  const Table& table() const { return table_; }
  // The elements of a block of any strategy.
  template <int kTaps, class From>
  MYOPS_INLINE V block_of(const Block& block, const From* source) const;

 private:
  static constexpr int64_t L = kLanes<Wide>;

  // Whether a load for each element is possible: not from elements that are to be widened.
  template <int kTaps, class From>
  static constexpr bool loads_neighbours() {
    return kPermutes<Wide> && std::is_same_v<std::remove_const_t<From>, Wide> &&
           (kTaps == 2 || (kTaps == 4 && sizeof(Wide) == sizeof(float)));
  }
  template <class AnyRows>
  using Element = std::remove_reference_t<decltype(*std::declval<AnyRows>().sources[0])>;

  template <int kTaps, class AnyRows>
  void run(int64_t begin, int64_t end, const AnyRows& rows) const;
  template <int kTaps, Strategy kStrategy, class AnyRows>
  int64_t sum_rows(int64_t first, int64_t end, const AnyRows& rows) const;
  template <int kTaps, class AnyRows>
  int64_t sum_neighbours(int64_t first, int64_t end, const AnyRows& rows) const;
  template <Strategy kStrategy, int kCycle>
  int64_t copy_rows(int64_t first, int64_t end, const Copied& rows) const;

  Table table_;
};

template <class Wide>
template <int kTaps, class AnyRows>
void Gather<Wide>::run(int64_t begin, int64_t end, const AnyRows& rows) const {
  for (int64_t first = begin / L * L; first < end;) {
    const Block& block = *table_.block(first);
    const int64_t at = table_.begin_of(first);
    const bool whole = at >= begin && at + L <= end;
    if constexpr (kPermutes<Wide>) {
      if (whole && block.strategy < Strategy::LoadPerElement) {
        first = with_strategy(block, [&](auto strategy) {
          if constexpr (kTaps == 0) {
            return with_cycle<strategy>(
                block, [&](auto cycle) { return copy_rows<strategy, cycle>(first, end, rows); });
          } else {
            return sum_rows<kTaps, strategy>(first, end, rows);
          }
        });
        continue;
      }
      if constexpr (loads_neighbours<kTaps, Element<AnyRows>>()) {
        if (whole && block.strategy == Strategy::LoadPerElement) {
          first = sum_neighbours<kTaps>(first, end, rows);
          continue;
        }
      }
    }
    const int64_t from = std::max(at, begin), to = std::min(at + L, end);
    for (int64_t row = 0; row < rows.count; ++row) {
      const V sums = block_of<kTaps>(block, rows.sources[row]);
      if (whole) {
        store_narrow<Wide>(rows.target + row * rows.step + at, sums);
      } else {
        std::remove_reference_t<decltype(*rows.target)> part[L];
        store_narrow<Wide>(part, sums);
        std::copy(part + (from - at), part + (to - at), rows.target + row * rows.step + from);
      }
    }
    first += L;
  }
}

// Whole blocks of all rows, whose tables are loaded once.
template <class Wide>
template <int kTaps, GatherStrategy kStrategy, class AnyRows>
MYOPS_NOINLINE int64_t Gather<Wide>::sum_rows(int64_t first, int64_t end,
                                              const AnyRows& rows) const {
  const auto sources = rows.sources;
  const int64_t count = rows.count, step = rows.step;
  return for_sums<kTaps, kStrategy>(
      table_, first, end, [&](const auto& block, int64_t low, int64_t at) {
        auto* target = rows.target + at;
        for (int64_t row = 0; row < count; ++row, target += step) {
          const auto* from = sources[row] + low;
          store_narrow<Wide>(target,
                             block.of([&](int64_t i) { return load_wide<Wide>(from + i); }));
        }
      });
}

// Blocks of LoadPerElement, row by row: a row is read from more places than several rows together
// can be read from at once.
template <class Wide>
template <int kTaps, class AnyRows>
MYOPS_NOINLINE int64_t Gather<Wide>::sum_neighbours(int64_t first, int64_t end,
                                                    const AnyRows& rows) const {
  const Block* const blocks = table_.block(first);
  const int64_t begin = table_.begin_of(first), last = table_.elements() - L;
  const int64_t stop = table_.run_end(*blocks, first, end), size = stop - first;
  const int32_t* const indices = table_.all_indices();
  const Wide* const weights = table_.all_weights();
  for (int64_t row = 0; row < rows.count; ++row) {
    const Wide* const source = rows.sources[row];
    auto* const target = rows.target + row * rows.step;
    const Block* block = blocks;
    for (int64_t at = begin; at < begin + size; at += L, ++block) {
      const Wide* weight = weights + block->weight;
      V x[kTaps];
      load_neighbours<kTaps>(source + block->low, indices + block->index, x);
      V total = load(weight) * x[0];
      for (int k = 1; k < kTaps; ++k) total = fma(load(weight + k * L), x[k], total);
      store_narrow<Wide>(target + std::min(at, last), total);
    }
  }
  return stop;
}

// Copies whole blocks, row by row, because memory is fastest with one stream of stores. Returns
// where the blocks end.
template <class Wide>
template <GatherStrategy kStrategy, int kCycle>
MYOPS_NOINLINE int64_t Gather<Wide>::copy_rows(int64_t first, int64_t end,
                                               const Copied& rows) const {
  const int64_t step = table_.step(), count = rows.count, row_step = rows.step;
  const auto load_places = [index = table_.all_indices(), step](const Block& block) {
    return Places<Wide, 1, kStrategy>(index + block.index, block.template step<kStrategy>(step));
  };
  const BlockRun<kCycle, Wide, decltype(load_places)> blocks(table_, first, end, load_places);
  const IndexedRows<Wide> sources = rows.sources;
  Wide* target = rows.target;
  for (int64_t row = 0; row < count; ++row, target += row_step) {
    const Wide* source = sources[row];
    blocks.each([&](const auto& places, int64_t low, int64_t at) {
      V x[1];
      places.pick([&](int64_t i) { return load(source + low + i); }, x);
      store(target + at, x[0]);
    });
  }
  return blocks.stop();
}

// kTaps: 0 for a copy.
template <class Wide>
template <int kTaps, class From>
MYOPS_INLINE typename Gather<Wide>::V Gather<Wide>::block_of(const Block& block,
                                                             const From* source) const {
  constexpr int kValues = kTaps > 1 ? kTaps : 1;
  const From* from = source + block.low;
  const int32_t* index = table_.index(block);
  V x[4] = {};
  constexpr bool kSame = kPermutes<Wide> && std::is_same_v<From, Wide>;
  constexpr bool kLoads = loads_neighbours<kTaps, From>();
  if (kLoads && block.strategy == Strategy::LoadPerElement) {
    if constexpr (kLoads) load_neighbours<kTaps>(from, index, x);
  } else if (block.strategy >= Strategy::LoadPerElement) {
    for (int k = 0; k < kValues; ++k) {
      if constexpr (kSame) {
        x[k] = gather_lanes(from, load_as<Index<Wide>>(index + k * L));
      } else {
        Wide part[L];
        for (int64_t i = 0; i < L; ++i) part[i] = static_cast<Wide>(from[index[k * L + i]]);
        x[k] = load(part);
      }
    }
  } else if constexpr (kPermutes<Wide>) {
    with_strategy(block, [&](auto strategy) MYOPS_INLINED {
      const int64_t step = block.template step<strategy>(table_.step());
      const Places<Wide, kValues, strategy> places(index, step);
      places.pick([&](int64_t at) MYOPS_INLINED { return load_wide<Wide>(from + at); }, x);
    });
  }
  if constexpr (kTaps == 0) return x[0];
  const Wide* weight = table_.weight(block);
  V total = load(weight) * x[0];
  for (int k = 1; k < kValues; ++k) total = fma(load(weight + k * L), x[k], total);
  return total;
}

}  // namespace myops::resize::MYOPS_ISA
