// Weighted sums along the fastest axis in memory, kLanes elements of the result at a time, by the
// roads of gather_table.h.
#pragma once

#include "gather_table.h"

namespace myops::resize::MYOPS_ISA {

// Memory that will be used soon. While the processor computes on what lies in its caches, memory
// would have nothing to do: so the passes within caches ask for some of it at each step.
struct Upcoming {
  const void* begin = nullptr;
  int64_t bytes = 0;  // for each element of a row

  // For the elements [first, first + count) of the row.
  MYOPS_INLINE void ask(int64_t first, int64_t count) const {
    const char* at = static_cast<const char*>(begin) + first * bytes;
    for (int64_t i = 0; i < count * bytes; i += 64) __builtin_prefetch(at + i);
  }
};

// Rows of a result, all made from the same columns of their own source rows. Short rows are made
// several at once: what belongs to the columns is then loaded once.
template <class Wide, class T>
struct Rows {
  const Wide* const* sources;  // element 0 of each source row, readable where reads() says
  int64_t count;
  T* target;      // the first row
  int64_t step;   // from one row of the target to the next
  int64_t ahead;  // how far behind each store memory is asked for; 0: not at all
  Upcoming next;
  bool past_caches = false;  // each block's place is one that stream() takes

  MYOPS_INLINE void put(int64_t row, int64_t at, const Vector<Wide>& values) const {
    T* to = target + row * step + at;
    if constexpr (std::is_same_v<T, Wide>) {
      if (past_caches) return stream(to, values);
    }
    if (ahead > 0) __builtin_prefetch(to + ahead, 1);
    store_narrow<Wide>(to, values);
  }
};

// Where the taps of a block lie, on a road from Within to Far.
template <class Wide, int kTaps, GatherRoad kRoad>
class Places {
 public:
  Places(const int32_t* index, int64_t step) : step_(step) {
    for (int k = 0; k < kTables; ++k) {
      at_[k] = load_as<Index<Wide>>(index + k * kLanes<Wide>);
    }
  }

  // x[k]: what the elements read at tap k; value(i) is the vector i elements from the block's
  // `low`.
  template <class Value>
  MYOPS_INLINE void pick(const Value& value, Vector<Wide>* x) const {
    constexpr int64_t L = kLanes<Wide>;
    if constexpr (kRoad == GatherRoad::Within) {
      const Vector<Wide> all = value(0);
      for (int k = 0; k < kTaps; ++k) x[k] = permute(all, at_[k]);
    } else {
      for (int k = 0; k < kTaps; ++k) {
        if constexpr (kRoad == GatherRoad::Near) {
          x[k] = permute(value(k * step_), at_[0]);
        } else {
          x[k] = permute(value(k * step_), value(k * step_ + L), at_[0]);
        }
      }
    }
  }

 private:
  static constexpr int kTables = kRoad == GatherRoad::Within ? kTaps : 1;
  Index<Wide> at_[kTables];
  int64_t step_;
};

// The weighted sums of a block on such a road.
template <class Wide, int kTaps, GatherRoad kRoad>
class BlockSum {
 public:
  BlockSum(const int32_t* index, const Wide* weight, int64_t step) : places_(index, step) {
    for (int k = 0; k < kTaps; ++k) weight_[k] = load(weight + k * kLanes<Wide>);
  }

  // As in Places::pick().
  template <class Value>
  MYOPS_INLINE Vector<Wide> of(const Value& value) const {
    Vector<Wide> x[kTaps];
    places_.pick(value, x);
    Vector<Wide> total = weight_[0] * x[0];
    for (int k = 1; k < kTaps; ++k) total = fma(weight_[k], x[k], total);
    return total;
  }

 private:
  Places<Wide, kTaps, kRoad> places_;
  Vector<Wide> weight_[kTaps];
};

template <class Wide>
class Gather {
 public:
  Gather(const Taps<Wide>& taps, int64_t step) : table_(taps, step) {}

  static bool takes(int64_t channels) { return GatherTable<Wide>::takes(channels); }
  int64_t elements() const { return table_.elements(); }
  std::pair<int64_t, int64_t> reads(int64_t begin, int64_t end) const {
    return table_.reads(begin, end);
  }

  // Element e of [begin, end) of each row goes to target[e - begin].
  template <class T>
  void sum(int64_t begin, int64_t end, const Rows<Wide, T>& rows) const {
    if (table_.width() == 4) return run<4>(begin, end, rows);
    if (table_.width() == 2) return run<2>(begin, end, rows);
    run<1>(begin, end, rows);
  }
  // As sum(), for one tap each, which is copied.
  void copy(int64_t begin, int64_t end, const Rows<Wide, Wide>& rows) const {
    run<0>(begin, end, rows);
  }

  using V = Vector<Wide>;
  using Table = GatherTable<Wide>;
  using Block = typename Table::Block;
  using Road = GatherRoad;

  const Table& table() const { return table_; }
  // A block of the elements from `first` on, on any road.
  template <int kTaps>
  MYOPS_INLINE V block_of(const Block& block, int64_t first, const Wide* source) const;

 private:
  static constexpr int64_t L = kLanes<Wide>;

  template <int kTaps, class T>
  void run(int64_t begin, int64_t end, const Rows<Wide, T>& rows) const;
  template <int kTaps, Road kRoad, bool kAlike, class T>
  int64_t run_whole(int64_t first, int64_t end, const Rows<Wide, T>& rows) const;
  template <int kTaps, Road kRoad, bool kAlike, bool kOneRow, class T>
  int64_t run_rows(int64_t first, int64_t end, const Rows<Wide, T>& rows) const;
  template <Road kRoad, bool kAlike>
  int64_t copy_rows(int64_t first, int64_t end, const Rows<Wide, Wide>& rows) const;
  V chains(const Block& block, const Wide* source) const;
  template <int kVectors>
  V many(const Block& block, const Wide* source) const;
  V one_by_one(int64_t first, const Wide* source) const;

  Table table_;
};

template <class Wide>
template <int kTaps, class T>
void Gather<Wide>::run(int64_t begin, int64_t end, const Rows<Wide, T>& given) const {
  Rows<Wide, T> rows = given;
  rows.target -= begin;
  for (int64_t first = begin / L * L; first < end;) {
    const Block& block = *table_.block(first);
    const bool whole = first >= begin && first + L <= end;
    if constexpr (kPermutes<Wide>) {
      if (whole && block.road <= Road::Far) {
        first = with_road(block, [&](auto road, auto alike) {
          return run_whole<kTaps, road, alike>(first, end, rows);
        });
        continue;
      }
    }
    const int64_t from = std::max(first, begin), to = std::min(first + L, end);
    rows.next.ask(first, L);
    for (int64_t row = 0; row < rows.count; ++row) {
      const V sums = block_of<kTaps>(block, first, rows.sources[row]);
      if (whole) {
        rows.put(row, first, sums);
      } else {
        T part[L];
        store_narrow<Wide>(part, sums);
        std::copy(part + (from - first), part + (to - first), rows.target + row * rows.step + from);
      }
    }
    first += L;
  }
}

// Whole blocks on a road from Within to Far, as many as follow one another; returns their end.
template <class Wide>
template <int kTaps, GatherRoad kRoad, bool kAlike, class T>
int64_t Gather<Wide>::run_whole(int64_t first, int64_t end, const Rows<Wide, T>& rows) const {
  if (rows.count == 1) return run_rows<kTaps, kRoad, kAlike, true>(first, end, rows);
  return run_rows<kTaps, kRoad, kAlike, false>(first, end, rows);
}

// Whole blocks of several rows, row by row: memory likes one stream of stores. Equal rows are
// written together. Returns where the blocks end.
template <class Wide>
template <GatherRoad kRoad, bool kAlike>
int64_t Gather<Wide>::copy_rows(int64_t first, int64_t end, const Rows<Wide, Wide>& given) const {
  const Rows<Wide, Wide> rows = given;
  const int64_t step = table_.step();
  const int32_t* index = table_.all_indices();
  const Block* blocks = table_.block(first);
  // Short rows have few blocks: their number is found once.
  const int64_t stop = for_blocks<kAlike>(
      table_, kRoad, first, end, [](const Block&) { return 0; }, [](int, int64_t, int64_t) {});
  const int64_t count = (stop - first) / L;
  const auto copy = [&](int64_t row, auto copies) {
    const Wide* from = rows.sources[row];
    for (int64_t i = 0; i < count; ++i) {
      const Places<Wide, 1, kRoad> places(index + blocks[i].index, step);
      V x[1];
      places.pick([&](int64_t at) { return load(from + blocks[i].low + at); }, x);
      for (int k = 0; k < copies; ++k) rows.put(row + k, first + i * L, x[0]);
    }
  };
  for (int64_t row = 0; row < rows.count;) {
    if (row + 1 < rows.count && rows.sources[row] == rows.sources[row + 1]) {
      copy(row, std::integral_constant<int, 2>());
      row += 2;
    } else {
      copy(row, std::integral_constant<int, 1>());
      ++row;
    }
  }
  return stop;
}

template <class Wide>
template <int kTaps, GatherRoad kRoad, bool kAlike, bool kOneRow, class T>
int64_t Gather<Wide>::run_rows(int64_t first, int64_t end, const Rows<Wide, T>& given) const {
  const Rows<Wide, T> rows = given;
  const int64_t step = table_.step();
  const int32_t* index = table_.all_indices();
  const Wide* source = rows.sources[0];
  if constexpr (kTaps == 0 && !kOneRow) {
    return copy_rows<kRoad, kAlike>(first, end, rows);
  } else if constexpr (kTaps == 0) {
    return for_blocks<kAlike>(
        table_, kRoad, first, end,
        [&](const Block& block) { return Places<Wide, 1, kRoad>(index + block.index, step); },
        [&](const auto& places, int64_t low, int64_t at) {
          rows.next.ask(at, L);
          V x[1];
          places.pick([&](int64_t i) { return load(source + low + i); }, x);
          rows.put(0, at, x[0]);
        });
  } else {
    const Wide* weight = table_.all_weights();
    return for_blocks<kAlike>(
        table_, kRoad, first, end,
        [&](const Block& block) {
          return BlockSum<Wide, kTaps, kRoad>(index + block.index, weight + block.weight, step);
        },
        [&](const auto& block, int64_t low, int64_t at) {
          rows.next.ask(at, L);
          for (int64_t row = 0; row < (kOneRow ? 1 : rows.count); ++row) {
            const Wide* from = (kOneRow ? source : rows.sources[row]) + low;
            rows.put(row, at, block.of([&](int64_t i) { return load(from + i); }));
          }
        });
  }
}

// kTaps: 0 for a copy, 1 for what has no such roads.
template <class Wide>
template <int kTaps>
MYOPS_INLINE typename Gather<Wide>::V Gather<Wide>::block_of(const Block& block, int64_t first,
                                                             const Wide* source) const {
  constexpr int kValues = kTaps > 1 ? kTaps : 1;
  const Wide* from = source + block.low;
  const int32_t* index = table_.index(block);
  V x[4] = {};
  if (kTaps == 1 && block.road == Road::OneByOne) return one_by_one(first, source);
  if (block.road == Road::Chains) return chains(block, from);
  if (block.road == Road::Long) return many<2>(block, from);
  if (block.road == Road::Longer) return many<4>(block, from);
  if (block.road == Road::OneByOne) {
    for (int k = 0; k < kValues; ++k) {
      Wide part[L];
      for (int64_t i = 0; i < L; ++i) part[i] = from[index[k * L + i]];
      x[k] = load(part);
    }
  } else if (block.road == Road::Spread) {
    if constexpr (L >= 4) {
      for (int j = 0; j < 4; ++j) x[j] = load_fours(from, index + j);
      transpose_fours<Wide>(x);
    }
  } else {
    if constexpr (kPermutes<Wide>) {
      const auto pick = [&](auto places) {
        places.pick([&](int64_t at) { return load(from + at); }, x);
      };
      if (block.road == Road::Within) {
        pick(Places<Wide, kValues, Road::Within>(index, table_.step()));
      } else if (block.road == Road::Near) {
        pick(Places<Wide, kValues, Road::Near>(index, table_.step()));
      } else if (block.road == Road::Far) {
        pick(Places<Wide, kValues, Road::Far>(index, table_.step()));
      } else {
        const V low = load(from), high = load(from + block.second);
        for (int k = 0; k < kValues; ++k) {
          x[k] = permute(low, high, load_as<Index<Wide>>(index + k * L));
        }
      }
    }
  }
  if constexpr (kTaps == 0) return x[0];
  const Wide* weight = table_.weight(block);
  V total = load(weight) * x[0];
  for (int k = 1; k < kValues; ++k) total = fma(load(weight + k * L), x[k], total);
  return total;
}

// What is not there is read as 0, not only weighted by it: it may be infinite.
template <class Wide>
typename Gather<Wide>::V Gather<Wide>::chains(const Block& block, const Wide* from) const {
  if constexpr (L >= 4) {
    const int32_t* index = table_.index(block);
    const Wide* weight = table_.weight(block);
    const Wide* real = weight + L * block.places;
    V x[4] = {};
    for (int four = 0; 4 * four < block.places; ++four, from += 4, weight += 4 * L, real += 4 * L) {
      for (int v = 0; v < 4; ++v) {
        V value = load_fours(from, index + v);
        if (!block.full) value = load(real + v * L) != V{} ? value : V{};
        const V w = load(weight + v * L);
        x[v] = four == 0 ? w * value : fma(w, value, x[v]);
      }
    }
    return sums_of_fours(x, std::make_integer_sequence<int, L>());
  } else {
    return V{};
  }
}

template <class Wide>
template <int kVectors>
typename Gather<Wide>::V Gather<Wide>::many(const Block& block, const Wide* from) const {
  if constexpr (kPermutes<Wide>) {
    const auto at = load_as<Index<Wide>>(table_.index(block));
    const Wide* weight = table_.weight(block);
    const Wide* real = weight + L * block.places;
    V x[4] = {};
    for (int k = 0; k < block.places; ++k, from += table_.step(), weight += L, real += L) {
      V value = permute(load(from), load(from + L), at);
      if constexpr (kVectors == 4) {  // permute() looks at the lower bits of an index alone
        const V far = permute(load(from + 2 * L), load(from + 3 * L), at);
        value = at < static_cast<int32_t>(2 * L) ? value : far;
      }
      if (!block.full) value = load(real) != V{} ? value : V{};
      const V sum = fma(load(weight), value, x[0]);  // of the chain k mod 4, which is in front
      x[0] = x[1], x[1] = x[2], x[2] = x[3], x[3] = sum;
    }
    // The chains are turned by the number of taps, which changes no sum: pairs stay pairs.
    return (x[0] + x[2]) + (x[1] + x[3]);
  } else {
    return V{};
  }
}

template <class Wide>
typename Gather<Wide>::V Gather<Wide>::one_by_one(int64_t first, const Wide* source) const {
  Wide parts[L] = {};
  for (int64_t i = 0; i < L && first + i < elements(); ++i) {
    const auto at = table_.element(first + i);
    parts[i] = weighted<Wide>(
        at.count, [&](int64_t k) { return at.weight[k]; },
        [&](int64_t k) { return source[at.source(k)]; });
  }
  return load(parts);
}

}  // namespace myops::resize::MYOPS_ISA
