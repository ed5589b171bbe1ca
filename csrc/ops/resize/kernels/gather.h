// Weighted sums along the fastest axis in memory, kLanes elements of the result at a time, by the
// strategies of gather_table.h.
#pragma once

#include <cassert>

#include "gather_loops.h"

namespace myops::resize::MYOPS_ISA {

// Rows of a result, all made from the same columns of their own source rows. Several short rows are
// made together, so that the tables of the columns are loaded once.
template <class Wide, class Sources = const Wide* const*>
struct GatherRows {
  Sources sources;  // [row]: element 0 of each source row
  int64_t count;
  Wide* target;  // element 0 of the first row, made or not
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

template <class Wide>
class Gather {
 public:
  Gather(const TapTable<Wide>& taps, int64_t step) : table_(taps, step) {}

  static bool supports(int64_t channels) { return GatherTable<Wide>::supports(channels); }
  int64_t elements() const { return table_.elements(); }
  bool is_fast() const { return table_.is_fast(); }

  // Makes the elements [begin, end) of each row.
  void sum(int64_t begin, int64_t end, const GatherRows<Wide>& rows) const {
    if (table_.width() == 4) return run<4>(begin, end, rows);
    run<2>(begin, end, rows);
  }
  // As sum(), for elements with one tap, which is copied.
  using Copied = GatherRows<Wide, IndexedRows<Wide>>;
  void copy(int64_t begin, int64_t end, const Copied& rows) const { run<0>(begin, end, rows); }

  using V = Vector<Wide>;
  using Table = GatherTable<Wide>;
  using Block = typename Table::Block;
  using Strategy = GatherStrategy;

  const Table& table() const { return table_; }
  // One element of a row whose elements are value(i).
  template <class Value>
  static Wide sum_of(const typename Table::Element& at, const Value& value) {
    return weighted<Wide>(
        at.count, [&](int64_t k) { return at.weight[k]; },
        [&](int64_t k) { return value(at.source(k)); });
  }
  // The block of elements from `first` on, for any strategy.
  template <int kTaps>
  MYOPS_INLINE V block_of(const Block& block, int64_t first, const Wide* source) const;

 private:
  static constexpr int64_t L = kLanes<Wide>;

  template <int kTaps, class AnyRows>
  void run(int64_t begin, int64_t end, const AnyRows& rows) const;
  template <int kTaps, Strategy kStrategy, int kCycle>
  int64_t sum_row(int64_t first, int64_t end, const Wide* source, Wide* target) const;
  template <int kTaps, Strategy kStrategy, int kCycle>
  int64_t sum_rows(int64_t first, int64_t end, const GatherRows<Wide>& rows) const;
  template <Strategy kStrategy, int kCycle>
  int64_t copy_rows(int64_t first, int64_t end, const Copied& rows) const;
  // Returns a function that loads the tables of a block.
  template <int kTaps, Strategy kStrategy>
  auto sum_loader() const {
    return [index = table_.all_indices(), weight = table_.all_weights(),
            step = table_.step()](const Block& block) {
      return BlockSum<Wide, kTaps, kStrategy>(index + block.index, weight + block.weight, step);
    };
  }
  template <bool kCopies>
  V scalar(int64_t first, const Wide* source) const;

  Table table_;
};

template <class Wide>
template <int kTaps, class AnyRows>
void Gather<Wide>::run(int64_t begin, int64_t end, const AnyRows& rows) const {
  for (int64_t first = begin / L * L; first < end;) {
    const Block& block = *table_.block(first);
    const bool whole = first >= begin && first + L <= end;
    if constexpr (kPermutes<Wide>) {
      if (whole && block.strategy <= Strategy::ThreeLoadsPerTap) {
        first = with_strategy<kTaps == 0>(block, [&](auto strategy, auto cycle) {
          if constexpr (kTaps == 0) {
            return copy_rows<strategy, cycle>(first, end, rows);
          } else {
            return sum_rows<kTaps, strategy, cycle>(first, end, rows);
          }
        });
        continue;
      }
    }
    const int64_t from = std::max(first, begin), to = std::min(first + L, end);
    for (int64_t row = 0; row < rows.count; ++row) {
      const V sums = block_of<kTaps>(block, first, rows.sources[row]);
      if (whole) {
        store(rows.target + row * rows.step + first, sums);
      } else {
        Wide part[L];
        store(part, sums);
        std::copy(part + (from - first), part + (to - first), rows.target + row * rows.step + from);
      }
    }
    first += L;
  }
}

// Whole blocks of a plain row.
template <class Wide>
template <int kTaps, GatherStrategy kStrategy, int kCycle>
MYOPS_NOINLINE int64_t Gather<Wide>::sum_row(int64_t first, int64_t end, const Wide* source,
                                             Wide* target) const {
  return for_blocks<kCycle>(table_, first, end, sum_loader<kTaps, kStrategy>(),
                            [&](const auto& block, int64_t low, int64_t at) {
                              const Wide* from = opaque(source + low);
                              store(target + at,
                                    block.of([&](int64_t i) { return load(from + i); }));
                            });
}

// The same for several rows: one by one if the tables stay in registers, otherwise all together.
template <class Wide>
template <int kTaps, GatherStrategy kStrategy, int kCycle>
int64_t Gather<Wide>::sum_rows(int64_t first, int64_t end, const GatherRows<Wide>& rows) const {
  if (rows.count == 1 || kCycle > 0) {
    int64_t stop = first;
    for (int64_t row = 0; row < rows.count; ++row) {
      stop = sum_row<kTaps, kStrategy, kCycle>(first, end, rows.sources[row],
                                               rows.target + row * rows.step);
    }
    return stop;
  }
  const Wide* const* sources = rows.sources;
  const int64_t count = rows.count, step = rows.step;
  return for_blocks<0>(table_, first, end, sum_loader<kTaps, kStrategy>(),
                       [&](const auto& block, int64_t low, int64_t at) {
                         Wide* target = rows.target + at;
                         for (int64_t row = 0; row < count; ++row, target += step) {
                           const Wide* from = sources[row] + low;
                           store(target, block.of([&](int64_t i) { return load(from + i); }));
                         }
                       });
}

}  // namespace myops::resize::MYOPS_ISA

#include "gather_block.h"
#include "gather_copy.h"
