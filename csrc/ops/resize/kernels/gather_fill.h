// Fills the tables of a block whose strategy is decided, and finds blocks that share tables; the
// second part of gather_table.h.
#pragma once

#include "gather_table.h"

namespace myops::resize::MYOPS_ISA {

// Reuses the tables of the previous block, or with channels those of as many blocks before, if they
// are equal: with a factor like 2 all are equal, or every other one of copies. With 3 and 1.5 the
// distance is three times as large.
template <class Wide>
void GatherTable<Wide>::fill_tables(Block& block, const Few& few_taps) {
  if (block.strategy == Strategy::ScalarWideIndex) return;
  const int64_t width = taps_.width;
  const bool each = block.strategy == Strategy::OneLoad ||
                    block.strategy == Strategy::TwoLoadsAnyOrder ||
                    block.strategy == Strategy::Scalar;
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

// With a factor like 2 all blocks but those at the edges have equal tables, or every other one of
// copies. With 3 and 1.5, or with three channels, they repeat after three blocks, with three
// channels and 3 after nine. Such tables are loaded once for a row. This is not done for
// downscaling, where memory bandwidth is the limit.
template <class Wide>
void GatherTable<Wide>::find_runs() {
  // Runs of this few blocks are not faster with shared tables; several rows that are copied use the
  // same tables in any case.
  const int64_t few = width() == 1 ? 4 : 16;
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();  // of the members of Block
  struct Repeat {
    int64_t cycle;
    int64_t count = 0;  // of blocks from here on
    int64_t shift = 0;
  };
  Repeat repeats[] = {{1}, {2}, {3}, {9}};
  if (!kernel_enabled("resize.gather_cycles")) return find_plain_runs();
  for (size_t i = blocks_.size(); i-- > 0;) {
    Block& block = blocks_[i];
    const bool follows = i + 1 < blocks_.size() && blocks_[i + 1].strategy == block.strategy;
    const bool goes_on = follows && blocks_[i + 1].cycle == 0 && blocks_[i + 1].run < kMost;
    block.run = goes_on ? blocks_[i + 1].run + 1 : 1;
    for (Repeat& repeat : repeats) {
      repeat.count = follows && block.strategy <= Strategy::LoadPerTap ? repeat.count + 1 : 1;
      if (repeat.count <= repeat.cycle) continue;
      if (repeat.cycle == 9 && (width() != 1 || block.strategy != Strategy::OneLoad)) continue;
      const Block& next = blocks_[i + static_cast<size_t>(repeat.cycle)];
      const int64_t shift = next.low - block.low;
      const bool fits = shift <= kMost && -shift <= kMost;
      if (!fits || block.index != next.index || block.weight != next.weight) {
        repeat.count = repeat.cycle;
      } else if (repeat.count > repeat.cycle + 1 && shift != repeat.shift) {
        repeat.count = repeat.cycle + 1;
      }
      repeat.shift = shift;
      if (repeat.count < few || block.cycle != 0) continue;
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
