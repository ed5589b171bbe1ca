// Weighted sums along the fastest axis in memory, kLanes elements of the result at a time.
//
// A block of kLanes elements takes one of several roads, decided once a call from its taps:
//   Near      all that it reads at tap k lies in one vector: a load and a permutation for each tap
//   Far       the same with two vectors; for shrinking by up to 2
//   Any       taps that are no neighbours, in two vectors: at the edges, where indices repeat
//   Spread    far apart: four neighbours of each element are loaded and turned over
//   Chains    more than four neighbours each: as in weighted(), four chains an element
//   OneByOne  anything else
// An element is one of the row: output * step + channel, where channels are innermost.
#pragma once

#include "rows.h"

namespace myops::resize::MYOPS_ISA {

template <class Wide>
class Gather {
 public:
  // Whether a few channels, innermost, are resampled together with the axis next to them.
  static bool takes(int64_t channels) { return channels < 8; }

  // `step`: elements from one index of the axis to the next; what is not taken has reads() alone.
  Gather(const Taps<Wide>& taps, int64_t step) : taps_(taps), step_(step) {
    if (!takes(step)) return;
    const int64_t blocks = (elements() + L - 1) / L;
    blocks_.reserve(static_cast<size_t>(blocks));
    for (int64_t block = 0; block < blocks; ++block) add_block(block * L);
  }

  int64_t elements() const { return taps_.output * step_; }

  // The elements of the source that those of [begin, end) read, from the first to behind the last.
  std::pair<int64_t, int64_t> reads(int64_t begin, int64_t end) const {
    std::pair<int64_t, int64_t> range{high(), low()};
    if (begin == 0 && end == elements()) {
      range = {low(), high()};
    } else if (blocks_.empty()) {
      for (int64_t k = taps_.first[begin / step_]; k < taps_.first[end / step_]; ++k) {
        range.first = std::min(range.first, taps_.index[k] * step_);
        range.second = std::max(range.second, (taps_.index[k] + 1) * step_);
      }
    } else {
      for (int64_t block = begin / L; block * L < end; ++block) {
        range.first = std::min(range.first, blocks_[block].low);
        range.second = std::max(range.second, blocks_[block].high);
      }
    }
    return {range.first, std::max(range.first, range.second)};
  }

  // target[e - begin] for e in [begin, end); `source` is that of element 0, readable where reads()
  // says. `ahead`: the target is part of the result (see Write).
  template <class T>
  void sum(int64_t begin, int64_t end, const Wide* source, bool ahead, T* target) const {
    const Rows<T> rows{target, 1, 0, ahead};
    if (taps_.width == 4) return run<4>(begin, end, source, rows);
    if (taps_.width == 2) return run<2>(begin, end, source, rows);
    run<1>(begin, end, source, rows);
  }
  // The same for one tap each, which is copied, into `rows` equal rows that are `step` apart.
  void copy(int64_t begin, int64_t end, const Wide* source, bool ahead, int64_t rows, int64_t step,
            Wide* target) const {
    run<0>(begin, end, source, Rows<Wide>{target, rows, step, ahead});
  }

 private:
  static constexpr int64_t L = kLanes<Wide>;
  using V = Vector<Wide>;

  template <class T>
  struct Rows {
    T* first;
    int64_t count, step;
    bool ahead;
    MYOPS_INLINE void put(int64_t at, const V& values) const {
      if (ahead) expect_store(first + at);
      store_narrow<Wide>(first + at, values);
      for (int64_t row = 1; row < count; ++row) {
        if (ahead) expect_store(first + row * step + at);
        store_narrow<Wide>(first + row * step + at, values);
      }
    }
  };
  enum class Road : uint8_t { Near, Far, Any, Spread, Chains, OneByOne };
  struct Block {
    int64_t low, high;      // what it reads
    int64_t second;         // where the second vector begins, after `low`
    int64_t index, weight;  // of its tables
    int32_t fours;          // of each element, on the road Chains
    Road road;
  };

  struct Element {
    const int64_t* index;
    const Wide* weight;
    int64_t count, step, channel;
    int64_t source(int64_t k) const { return index[k] * step + channel; }
  };

  int64_t low() const { return taps_.low * step_; }
  int64_t high() const { return (taps_.high + 1) * step_; }
  Element element(int64_t at) const {
    const int64_t output = step_ == 1 ? at : at / step_, first = taps_.first[output];
    return {taps_.index.data() + first, taps_.weight.data() + first, taps_.count(output), step_,
            at - output * step_};
  }

  void add_block(int64_t begin);
  void fill_tables(Block& block, const Element* elements);
  template <class T>
  static int64_t share(std::vector<T>& all, int64_t previous, const std::vector<T>& table);

  template <int kTaps, class T>
  void run(int64_t begin, int64_t end, const Wide* source, const Rows<T>& target) const;
  template <int kTaps, class T>
  int64_t run_near(int64_t first, int64_t end, const Wide* source, const Rows<T>& target) const;
  template <int kTaps>
  MYOPS_INLINE V block_of(const Block& block, int64_t first, const Wide* source) const;
  V chains(const Block& block, const Wide* source) const;
  V one_by_one(int64_t first, const Wide* source, bool copy) const;

  const Taps<Wide>& taps_;
  int64_t step_;
  std::vector<Block> blocks_;
  std::vector<int32_t> index_;  // relative to `low`
  std::vector<Wide> weight_;
  std::vector<int32_t> new_index_;  // of one block
  std::vector<Wide> new_weight_;
};

template <class Wide>
void Gather<Wide>::add_block(int64_t begin) {
  Element elements[L];  // behind the end of the row the last one again
  for (int64_t i = 0; i < L; ++i) elements[i] = element(std::min(begin + i, this->elements() - 1));
  const int64_t width = taps_.width;
  int64_t least = high(), most = low(), fewest = elements[0].count, widest = 0;
  bool neighbours = true;
  for (const Element& element : elements) {
    fewest = std::min(fewest, element.count);
    widest = std::max(widest, element.count);
    for (int64_t k = 0; k < element.count; ++k) {
      const int64_t from = element.source(k);
      least = std::min(least, from);
      most = std::max(most, from);
      neighbours = neighbours && element.index[k] == element.index[0] + k;
    }
  }
  Block block{least, most + 1, 0, 0, 0, 0, Road::OneByOne};
  const bool few = width == 1 || width == 2 || width == 4;
  const int64_t reach = (width - 1) * step_, room = high() - low();
  if (kPermutes<Wide> && few && neighbours && most - reach - least < L && reach + L <= room) {
    block.road = Road::Near;
    block.low = std::min(least, high() - L - reach);
    block.high = block.low + reach + L;
  } else if (kPermutes<Wide> && few && neighbours && most - reach - least < 2 * L &&
             reach + 2 * L <= room) {
    block.road = Road::Far;
    block.low = std::min(least, high() - 2 * L - reach);
    block.high = block.low + reach + 2 * L;
  } else if (kPermutes<Wide> && few && most - least < 2 * L && room >= L) {
    block.road = Road::Any;
    block.low = std::max(low(), std::min(least, high() - 2 * L));
    block.high = std::min(block.low + 2 * L, high());
    block.second = block.high - L - block.low;
  } else if (L >= 4 && step_ == 1 && neighbours && widest > 0) {
    block.fours = static_cast<int32_t>((widest + 3) / 4);
    bool inside = true;
    for (const Element& element : elements) {
      inside = inside && element.count > 0 && element.source(0) + 4 * block.fours <= high();
    }
    if (inside && few && width > 1) block.road = Road::Spread;
    if (inside && fewest > 4 && (fewest + 3) / 4 == block.fours) block.road = Road::Chains;
  }
  fill_tables(block, elements);
  blocks_.push_back(block);
}

// The tables of the block before are used again where they are equal: with a factor like 2 all are.
template <class Wide>
void Gather<Wide>::fill_tables(Block& block, const Element* elements) {
  if (block.road == Road::OneByOne) return;
  new_index_.clear();
  new_weight_.clear();
  const auto weight = [&](const Element& element, int64_t k) {
    new_weight_.push_back(k < element.count ? element.weight[k] : Wide(0));
  };
  for (int64_t k = 0; k < (block.road == Road::Any ? taps_.width : 1); ++k) {
    for (int64_t i = 0; i < L; ++i) {
      const int64_t at = elements[i].source(k) - block.low;
      const bool second = block.road == Road::Any && at >= L;
      new_index_.push_back(static_cast<int32_t>(second ? at - block.second + L : at));
    }
  }
  if (block.road == Road::Chains) {
    // [four][v][lane]: lane 4 g + j of v belongs to element 4 g + v and its tap j. Then what is 1
    // where the last four has a tap.
    for (int64_t k = 0; k < 4 * block.fours; k += 4) {
      for (int64_t v = 0; v < 4; ++v) {
        for (int64_t i = 0; i < L; ++i) weight(elements[i / 4 * 4 + v], k + i % 4);
      }
    }
    for (int64_t v = 0; v < 4; ++v) {
      for (int64_t i = 0; i < L; ++i) {
        const int64_t k = 4 * (block.fours - 1) + i % 4;
        new_weight_.push_back(k < elements[i / 4 * 4 + v].count ? Wide(1) : Wide(0));
      }
    }
  } else {
    for (int64_t k = 0; k < taps_.width; ++k) {
      for (int64_t i = 0; i < L; ++i) weight(elements[i], k);
    }
  }
  const bool same = !blocks_.empty() && blocks_.back().road == block.road;
  block.index = share(index_, same ? blocks_.back().index : -1, new_index_);
  block.weight = share(weight_, same ? blocks_.back().weight : -1, new_weight_);
}

template <class Wide>
template <class T>
int64_t Gather<Wide>::share(std::vector<T>& all, int64_t previous, const std::vector<T>& table) {
  const auto size = static_cast<int64_t>(table.size());
  if (previous >= 0 && previous + size <= static_cast<int64_t>(all.size()) &&
      std::equal(table.begin(), table.end(), all.begin() + previous)) {
    return previous;
  }
  all.insert(all.end(), table.begin(), table.end());
  return static_cast<int64_t>(all.size()) - size;
}

template <class Wide>
template <int kTaps, class T>
void Gather<Wide>::run(int64_t begin, int64_t end, const Wide* source,
                       const Rows<T>& target) const {
  const Rows<T> from_zero{target.first - begin, target.count, target.step, target.ahead};
  for (int64_t first = begin / L * L; first < end;) {
    const Block& block = blocks_[first / L];
    const bool whole = first >= begin && first + L <= end;
    if constexpr (kPermutes<Wide>) {
      if (whole && block.road == Road::Near) {
        first = run_near<kTaps>(first, end, source, from_zero);
        continue;
      }
    }
    const V sums = block_of<kTaps>(block, first, source);
    if (whole) {
      from_zero.put(first, sums);
    } else {
      T part[L];
      store_narrow<Wide>(part, sums);
      const int64_t from = std::max(first, begin), to = std::min(first + L, end);
      for (int64_t row = 0; row < target.count; ++row) {
        std::copy(part + (from - first), part + (to - first),
                  from_zero.first + row * target.step + from);
      }
    }
    first += L;
  }
}

// Whole blocks on the road Near, as many as follow one another; returns their end.
template <class Wide>
template <int kTaps, class T>
int64_t Gather<Wide>::run_near(int64_t first, int64_t end, const Wide* source,
                               const Rows<T>& target) const {
  const Block* block = &blocks_[first / L];
  const int32_t* index = index_.data();
  const Wide* weight = weight_.data();
  const int64_t step = step_;
  const Rows<T> to = target;
  for (; first + L <= end && block->road == Road::Near; first += L, ++block) {
    const Wide* from = source + block->low;
    const auto at = load_as<Index<Wide>>(index + block->index);
    V total = permute(load(from), at);
    if constexpr (kTaps > 0) {
      const Wide* w = weight + block->weight;
      total = load(w) * total;
      for (int k = 1; k < kTaps; ++k) {
        total = fma(load(w + k * L), permute(load(from + k * step), at), total);
      }
    }
    to.put(first, total);
  }
  return first;
}

// kTaps: 0 for a copy, 1 for what has no such roads.
template <class Wide>
template <int kTaps>
MYOPS_INLINE typename Gather<Wide>::V Gather<Wide>::block_of(const Block& block, int64_t first,
                                                             const Wide* source) const {
  constexpr int kValues = kTaps > 1 ? kTaps : 1;
  const Wide* from = source + block.low;
  const int32_t* index = index_.data() + block.index;
  V x[4] = {};
  if (block.road == Road::OneByOne) return one_by_one(first, source, kTaps == 0);
  if (block.road == Road::Chains) return chains(block, from);
  if (block.road == Road::Spread) {
    if constexpr (L >= 4) {
      for (int j = 0; j < 4; ++j) x[j] = load_fours(from, index + j);
      transpose_fours<Wide>(x);
    }
  } else {
    if constexpr (kPermutes<Wide>) {
      const auto at = load_as<Index<Wide>>(index);
      if (block.road == Road::Near) {
        for (int k = 0; k < kValues; ++k) x[k] = permute(load(from + k * step_), at);
      } else if (block.road == Road::Far) {
        for (int k = 0; k < kValues; ++k) {
          x[k] = permute(load(from + k * step_), load(from + k * step_ + L), at);
        }
      } else {
        const V low = load(from), high = load(from + block.second);
        for (int k = 0; k < kValues; ++k) {
          x[k] = permute(low, high, load_as<Index<Wide>>(index + k * L));
        }
      }
    }
  }
  if constexpr (kTaps == 0) return x[0];
  const Wide* weight = weight_.data() + block.weight;
  V total = load(weight) * x[0];
  for (int k = 1; k < kValues; ++k) total = fma(load(weight + k * L), x[k], total);
  return total;
}

// What is not there is read as 0, not only weighted by it: it may be infinite.
template <class Wide>
typename Gather<Wide>::V Gather<Wide>::chains(const Block& block, const Wide* from) const {
  if constexpr (L >= 4) {
    const int32_t* index = index_.data() + block.index;
    const Wide* weight = weight_.data() + block.weight;
    const Wide* real = weight + 4 * L * block.fours;
    V x[4] = {};
    for (int four = 0; four < block.fours; ++four, from += 4, weight += 4 * L) {
      for (int v = 0; v < 4; ++v) {
        V value = load_fours(from, index + v);
        if (four + 1 == block.fours) value = load(real + v * L) != V{} ? value : V{};
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
typename Gather<Wide>::V Gather<Wide>::one_by_one(int64_t first, const Wide* source,
                                                  bool copy) const {
  Wide parts[L] = {};
  for (int64_t i = 0; i < L && first + i < elements(); ++i) {
    const Element at = element(first + i);
    parts[i] = copy ? source[at.source(0)]
                    : weighted<Wide>(
                          at.count, [&](int64_t k) { return at.weight[k]; },
                          [&](int64_t k) { return source[at.source(k)]; });
  }
  return load(parts);
}

}  // namespace myops::resize::MYOPS_ISA
