// The tables of gather.h: which source elements each block of a row reads. Equal calls share them
// (table_cache.h).
//
// A block of kLanes elements has a strategy, which depends on the positions of its taps:
//   OneLoad            the source elements lie in one vector: a load, a permutation for each tap
//   LoadPerTap         those of tap k lie in one vector: a load and a permutation for each tap
//   TwoLoadsPerTap     the same with two vectors; for downscaling by up to 2
//   ThreeLoadsPerTap   the same with three; for downscaling by up to 3, and for channels innermost
//   TwoLoadsAnyOrder   taps that are not consecutive, in two vectors: at the edges, where indices
//                      repeat
//   LoadPerElement     the taps of each element lie side by side, a load for each element; for
//                      downscaling by more
//   Scalar             anything else, such as sources shorter than a vector: element by element, or
//                      by the instruction that gathers
//
// The order matters: up to TwoLoadsAnyOrder, the loops of gather_loops.h make the blocks, and up to
// ThreeLoadsPerTap these are fast.
// All outputs have as many taps: one, two or four. An element is one of the row: output * step +
// channel, where channels are innermost.
#pragma once

#include <cassert>
#include <new>
#include <vector>

#include "../../../core/kernel_switch.h"
#include "slab_sum.h"

namespace myops::resize::MYOPS_ISA {

enum class GatherStrategy : uint8_t {
  OneLoad,
  LoadPerTap,
  TwoLoadsPerTap,
  ThreeLoadsPerTap,
  TwoLoadsAnyOrder,
  LoadPerElement,
  Scalar
};

// A vector that begins with a cache line: a table whose parts lie in two lines each takes a third
// longer to load.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  LineAllocator() = default;
  template <class Other>
  explicit LineAllocator(const LineAllocator<Other>&) {}
  T* allocate(size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
  void deallocate(T* memory, size_t) { ::operator delete(memory, kLine); }
  bool operator==(const LineAllocator&) const { return true; }
  bool operator!=(const LineAllocator&) const { return false; }
};
template <class T>
using InLines = std::vector<T, LineAllocator<T>>;

template <class Wide>
class GatherTable {
 public:
  using Strategy = GatherStrategy;
  struct Block {
    int64_t low, high;      // what it reads
    int64_t second;         // where the second vector begins, after `low`
    int64_t index, weight;  // of its tables
    int32_t run;            // blocks from here on, this one included, that one loop makes
    int32_t shift;          // from the `low` of one to that of the same place in the next cycle
    Strategy strategy;
    // After so many blocks the tables of a run of copies come again: 1, 2, 3, 9 or 0, never.
    uint8_t cycle;

    // From the vectors of one tap to those of the next, or from the first vector to the second.
    template <Strategy kStrategy>
    int64_t step(int64_t of_axis) const {
      return kStrategy == Strategy::TwoLoadsAnyOrder ? second : of_axis;
    }
  };
  // Whether a few channels, innermost, are resampled together with the axis next to them.
  static bool within_rows(int64_t channels) { return channels < 8; }
  // Whether a row is at least one block, and the int32 of a table can express how far that reaches.
  static bool supports(const TapTable<Wide>& taps, int64_t step) {
    return within_rows(step) && taps.output * step >= L &&
           (taps.high - taps.low + 1) * step <= kFarthest;
  }

  // `step`: elements from one index of the axis to the next.
  GatherTable(const TapTable<Wide>& taps, int64_t step) : taps_(taps), step_(step) {
    const int64_t blocks = (elements() + L - 1) / L;
    blocks_.reserve(static_cast<size_t>(blocks));
    for (int64_t block = 0; block < blocks; ++block) add_block(begin_of(block * L));
    find_runs();
  }

  int64_t elements() const { return taps_.output * step_; }
  // Whether fast loops make most of the blocks.
  bool is_made_by_loops() const {
    return most_are(
        [](const Block& block) { return block.strategy <= Strategy::ThreeLoadsPerTap; });
  }
  // For copies. Those of channels are compared with copies of all channels together, which on AVX2
  // are as fast as two loads and permutations of two vectors. Where a vector has four elements,
  // loads of each take half the time, unless equal tables serve half of the row.
  bool copies_fast() const {
    constexpr Strategy kSlowest =
        MYOPS_VECTOR_BYTES == 64 ? Strategy::ThreeLoadsPerTap : Strategy::OneLoad;
    if (step_ > 1) return most_are([](const Block& block) { return block.strategy <= kSlowest; });
    if (L > 4) return is_made_by_loops();
    const auto half = static_cast<int64_t>(blocks_.size()) / 2;
    return std::any_of(blocks_.begin(), blocks_.end(),
                       [half](const Block& block) { return block.cycle > 0 && block.run >= half; });
  }
  // Whether is_made_by_loops(), or the taps of an element are loaded together, or two are gathered
  // from far apart.
  bool is_fast() const {
    return is_made_by_loops() || most_are([this](const Block& block) {
             return block.strategy == Strategy::LoadPerElement ||
                    (width() == 2 && block.strategy == Strategy::Scalar &&
                     block.high - block.low > 3 * L);
           });
  }
  int64_t step() const { return step_; }
  int64_t width() const { return taps_.width; }  // taps of each element, or 0: they differ
  // Where the block `first`, a multiple of kLanes, begins: the last one makes some elements again.
  int64_t begin_of(int64_t first) const { return std::min(first, elements() - L); }
  const Block* block(int64_t first) const { return &blocks_[static_cast<size_t>(first / L)]; }
  // Where the run of blocks from `first` on ends, or its last block before `end`.
  int64_t run_end(const Block& block, int64_t first, int64_t end) const {
    const int64_t behind = end == elements() ? L - 1 : 0;  // the last one may be made
    return first + std::min<int64_t>(block.run, (end - first + behind) / L) * L;
  }
  const int32_t* index(const Block& block) const { return index_.data() + block.index; }
  const Wide* weight(const Block& block) const { return weight_.data() + block.weight; }
  const int32_t* all_indices() const { return index_.data(); }
  const Wide* all_weights() const { return weight_.data(); }

 private:
  static constexpr int64_t L = kLanes<Wide>;
  // The most elements between what a block reads, for its tables: none looks farther than a few
  // vectors behind the last.
  static constexpr int64_t kFarthest = std::numeric_limits<int32_t>::max() - 8 * L;

  template <class Holds>
  bool most_are(const Holds& holds) const {
    return 4 * std::count_if(blocks_.begin(), blocks_.end(), holds) >=
           3 * static_cast<int64_t>(blocks_.size());
  }
  int64_t low() const { return taps_.low * step_; }
  int64_t high() const { return (taps_.high + 1) * step_; }

  // What the elements of a block read and weigh, with one, two or four taps each.
  struct Few {
    int64_t from[4 * L];  // [tap][element]
    Wide weight[4 * L];
  };

  void add_block(int64_t begin);
  void find_runs();
  template <int kTaps>
  Few gather_few(int64_t begin) const;
  void fill_tables(Block& block, const Few& few_taps);
  template <class T>
  int64_t share(InLines<T>& all, const Block& block, int64_t Block::* place,
                const std::vector<T>& table);

  const TapTable<Wide>& taps_;
  int64_t step_;
  std::vector<Block> blocks_;
  InLines<int32_t> index_;  // relative to `low`
  InLines<Wide> weight_;
  std::vector<int32_t> new_index_;  // of one block
  std::vector<Wide> new_weight_;
};

template <class Wide>
void GatherTable<Wide>::add_block(int64_t begin) {
  const int64_t width = taps_.width;
  assert(width == 1 || width == 2 || width == 4);
  int64_t least = high(), most = low();
  bool neighbours = true;
  const Few few_taps = width == 1   ? gather_few<1>(begin)
                       : width == 2 ? gather_few<2>(begin)
                                    : gather_few<4>(begin);
  const int64_t* from = few_taps.from;
  for (int64_t i = 0; i < width * L; ++i) {
    least = std::min(least, from[i]);
    most = std::max(most, from[i]);
  }
  for (int64_t i = 0; i < (width - 1) * L; ++i) neighbours &= from[i + L] - from[i] == step_;
  Block block{least, most + 1, 0, 0, 0, 1, 0, Strategy::Scalar, 0};
  const int64_t tap_span = (width - 1) * step_, source_size = high() - low();
  const bool near = neighbours && most - tap_span - least < L && tap_span + L <= source_size;
  // Four permutations with separate tables are slower than four loads with one table. And if
  // strategies alternate, both are slower, because each run has only a block or two.
  const Strategy before = blocks_.empty() ? Strategy::Scalar : blocks_.back().strategy;
  const bool stays_near = near && (width == 4 || before == Strategy::LoadPerTap);
  const bool farther = neighbours && before != Strategy::LoadPerElement &&
                       most - tap_span - least < 3 * L && tap_span + 3 * L <= source_size;
  const bool stays_farther = farther && before == Strategy::ThreeLoadsPerTap;
  if (most - least < L && L <= source_size && !stays_near) {
    block.strategy = Strategy::OneLoad;
    block.low = std::min(least, high() - L);
    // Copies of a doubling or tripling: a whole vector of the source serves two or three blocks.
    // (Of other factors with three channels the tables would come again later, or not at all.)
    const int64_t whole = least / L * L;
    const bool aligns = step_ == 1 || (step_ == 3 && taps_.output == 3 * taps_.input);
    if (width == 1 && aligns && most - least >= L / 4 && whole >= low() && most - whole < L &&
        whole + L <= high()) {
      block.low = whole;
    }
    block.high = block.low + L;
  } else if (near) {
    block.strategy = Strategy::LoadPerTap;
    block.low = std::min(least, high() - L - tap_span);
    block.high = block.low + tap_span + L;
  } else if (neighbours && most - tap_span - least < 2 * L && tap_span + 2 * L <= source_size &&
             !stays_farther) {
    block.strategy = Strategy::TwoLoadsPerTap;
    block.low = std::min(least, high() - 2 * L - tap_span);
    block.high = block.low + tap_span + 2 * L;
  } else if (most - least < 2 * L && source_size >= L && !stays_farther) {
    block.strategy = Strategy::TwoLoadsAnyOrder;
    block.low = std::max(low(), std::min(least, high() - 2 * L));
    block.high = std::min(block.low + 2 * L, high());
    block.second = block.high - L - block.low;
  } else if (farther) {
    block.strategy = Strategy::ThreeLoadsPerTap;
    block.low = std::min(least, high() - 3 * L - tap_span);
    block.high = block.low + tap_span + 3 * L;
  } else if (neighbours && step_ == 1 && (width == 2 || (width == 4 && sizeof(Wide) == 4))) {
    block.strategy = Strategy::LoadPerElement;
  }
  fill_tables(block, few_taps);
  blocks_.push_back(block);
}

// By value: GCC 12 at -O2 dropped the stores to members that the caller read.
template <class Wide>
template <int kTaps>
auto GatherTable<Wide>::gather_few(int64_t begin) const -> Few {
  Few few;
  int64_t output = begin / step_, channel = begin - output * step_;
  for (int64_t i = 0; i < L; ++i) {
    const int64_t* index = taps_.index.data() + output * kTaps;
    const Wide* weight = taps_.weight.data() + output * kTaps;
    for (int k = 0; k < kTaps; ++k) {
      few.from[k * L + i] = index[k] * step_ + channel;
      few.weight[k * L + i] = weight[k];
    }
    if (++channel == step_) channel = 0, ++output;
  }
  return few;
}

// Reuses the tables of the previous block, or with channels those of as many blocks before, if they
// are equal: with a factor like 2 all are equal, or every other one of copies. With 3 and 1.5 the
// distance is three times as large.
template <class Wide>
void GatherTable<Wide>::fill_tables(Block& block, const Few& few_taps) {
  const int64_t width = taps_.width;
  const bool each =
      block.strategy == Strategy::OneLoad || block.strategy >= Strategy::TwoLoadsAnyOrder;
  const int64_t size = each ? width * L : L;
  new_index_.resize(static_cast<size_t>(size));
  const auto low = block.low, second = block.second;
  int32_t* index = new_index_.data();
  for (int64_t i = 0; i < size; ++i) index[i] = static_cast<int32_t>(few_taps.from[i] - low);
  if (block.strategy == Strategy::TwoLoadsAnyOrder) {
    for (int64_t i = 0; i < size; ++i) {
      if (index[i] >= L) index[i] += static_cast<int32_t>(L - second);
    }
  }
  new_weight_.assign(few_taps.weight, few_taps.weight + width * L);
  block.index = share(index_, block, &Block::index, new_index_);
  block.weight = share(weight_, block, &Block::weight, new_weight_);
}

// Finds the blocks that one loop makes. With a factor like 2 all blocks of copies but those at the
// edges have equal tables, or every other one. With 3 and 1.5, or with three channels, they repeat
// after three blocks, with three channels and 3 after nine. Such tables are loaded once for several
// rows. (Sums were not faster with it.)
template <class Wide>
void GatherTable<Wide>::find_runs() {
  constexpr int64_t kFew = 4;  // blocks, which are not faster with shared tables
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();  // of the members of Block
  struct Repeat {
    int64_t cycle;
    int64_t count = 0;  // of blocks from here on
    int64_t shift = 0;
  };
  Repeat repeats[] = {{1}, {2}, {3}, {9}};
  const bool cycles = width() == 1 && kernel_enabled("resize.gather_cycles");
  // Of copies, a last block that is not whole is a run of its own.
  const auto whole = width() == 1 ? static_cast<size_t>(elements() / L) : blocks_.size();
  for (size_t i = blocks_.size(); i-- > 0;) {
    Block& block = blocks_[i];
    const bool follows = i + 1 < whole && blocks_[i + 1].strategy == block.strategy;
    const bool goes_on = follows && blocks_[i + 1].cycle == 0 && blocks_[i + 1].run < kMost;
    block.run = goes_on ? blocks_[i + 1].run + 1 : 1;
    if (!cycles) continue;
    for (Repeat& repeat : repeats) {
      repeat.count = follows && block.strategy == Strategy::OneLoad ? repeat.count + 1 : 1;
      if (repeat.count <= repeat.cycle) continue;
      const Block& next = blocks_[i + static_cast<size_t>(repeat.cycle)];
      const int64_t shift = next.low - block.low;
      const bool fits = shift <= kMost && -shift <= kMost;
      if (!fits || block.index != next.index) {
        repeat.count = repeat.cycle;
      } else if (repeat.count > repeat.cycle + 1 && shift != repeat.shift) {
        repeat.count = repeat.cycle + 1;
      }
      repeat.shift = shift;
      if (repeat.count < kFew || block.cycle != 0) continue;
      block.cycle = static_cast<uint8_t>(repeat.cycle);
      block.run = static_cast<int32_t>(std::min(repeat.count, kMost));
      block.shift = static_cast<int32_t>(shift);
    }
  }
}

template <class Wide>
template <class T>
int64_t GatherTable<Wide>::share(InLines<T>& all, const Block& block, int64_t Block::* place,
                                 const std::vector<T>& table) {
  const auto size = static_cast<int64_t>(table.size());
  const auto made = static_cast<int64_t>(blocks_.size());
  for (const int64_t back : {int64_t{1}, step_, int64_t{2}, int64_t{3}, 3 * step_}) {
    if (back > made || blocks_[made - back].strategy != block.strategy) continue;
    const int64_t earlier = blocks_[made - back].*place;
    if (earlier + size <= static_cast<int64_t>(all.size()) &&
        std::memcmp(table.data(), all.data() + earlier, table.size() * sizeof(T)) == 0) {
      return earlier;
    }
  }
  all.insert(all.end(), table.begin(), table.end());
  return static_cast<int64_t>(all.size()) - size;
}

}  // namespace myops::resize::MYOPS_ISA
