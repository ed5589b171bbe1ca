// The taps of kernel "lanes" (lanes.h): as many for each output, where missing ones are padded.
#pragma once

#include <limits>
#include <vector>

#include "slab_sum.h"

namespace myops::resize::MYOPS_ISA {

// Outputs that are made together, and the source elements [low, high) that they read.
struct LaneTile {
  int64_t begin, end, low, high;
};

template <class Wide>
class LaneTable {
 public:
  // Rows that lie in one slab: a cache line has an element of each.
  static constexpr int64_t kRows = 64 / static_cast<int64_t>(sizeof(Wide));

  // `step`: elements from one index of the axis to the next, all with the same taps.
  LaneTable(const TapTable<Wide>& taps, int64_t step)
      : step_(step),
        few_(taps.widest <= 4 ? static_cast<int>(std::max<int64_t>(taps.widest, 1)) : 0) {
    if (!supports(taps, step)) return;
    const int64_t places = padded(taps);
    index_.reserve(static_cast<size_t>(places));
    weight_.reserve(static_cast<size_t>(places));
    if (few_ == 0) fours_.reserve(static_cast<size_t>(taps.output) + 1);
    for (int64_t o = 0; o < taps.output; ++o) add_output(taps, o);
    fours_.push_back(static_cast<int32_t>(index_.size() / 4));
    add_tiles(taps);
  }

  static bool supports(const TapTable<Wide>& taps, int64_t step) {
    constexpr int64_t kMostSlabs = 1 << 17;  // of an output; each takes 64 bytes in a tile
    return taps.high - taps.low < std::numeric_limits<int32_t>::max() / 64 && step < kMostSteps &&
           taps.span * step <= kMostSlabs && padded(taps) < std::numeric_limits<int32_t>::max();
  }
  // Bytes of the tables, at most.
  static double bytes(const TapTable<Wide>& taps) {
    return static_cast<double>(padded(taps)) * (sizeof(Wide) + 2 * sizeof(int32_t)) +
           static_cast<double>(taps.output + 1) * (sizeof(int32_t) + sizeof(LaneTile));
  }

  static constexpr int64_t kMostSteps = 8;
  int64_t step() const { return step_; }
  int few() const { return few_; }  // taps of every output, 1 to 4; 0: four or a multiple of it
  bool compact() const { return compact_; }
  const std::vector<LaneTile>& tiles() const { return tiles_; }
  int64_t widest_tile() const { return widest_tile_; }  // source slabs of a tile, at most

  // The place of an output's first tap, and of its end.
  int64_t place(int64_t o) const { return few_ > 0 ? o * few_ : int64_t{4} * fours_[o]; }
  // The slab of each tap, of which the first of a tile is low(tile), and the element of the source
  // in it; -1: padded.
  const int32_t* slab() const { return compact_ ? slab_.data() : index_.data(); }
  const int32_t* index() const { return index_.data(); }
  int64_t low(const LaneTile& tile) const { return compact_ ? place(tile.begin) : tile.low; }
  const Wide* weight() const { return weight_.data(); }

 private:
  static int64_t padded(const TapTable<Wide>& taps) {
    if (taps.widest <= 4) return taps.output * std::max<int64_t>(taps.widest, 1);
    return static_cast<int64_t>(taps.index.size()) + 4 * taps.output;
  }

  // A padded tap reads 0 and has the weight -0: adding -0 changes no sum, not even one of -0. The
  // sum of an output without taps begins with the weight 0 and is 0.
  void add_output(const TapTable<Wide>& taps, int64_t o) {
    const int64_t count = taps.count(o), first = taps.first[o];
    const int64_t places = few_ > 0 ? few_ : std::max<int64_t>((count + 3) / 4 * 4, 4);
    if (few_ == 0) fours_.push_back(static_cast<int32_t>(index_.size() / 4));
    for (int64_t k = 0; k < places; ++k) {
      const bool real = k < count;
      index_.push_back(real ? static_cast<int32_t>(taps.index[first + k] - taps.low) : -1);
      weight_.push_back(real ? taps.weight[first + k] : count == 0 && k == 0 ? Wide(0) : -Wide(0));
    }
  }

  // Tiles whose source fits half of the L1 cache. If outputs read few of the source elements
  // between, each place of a tap gets a slab of its own.
  void add_tiles(const TapTable<Wide>& taps) {
    const int64_t span = taps.high - taps.low + 1;
    compact_ = static_cast<double>(span) > 4.0 * static_cast<double>(index_.size());
    if (compact_) {
      slab_.resize(index_.size());
      for (size_t k = 0; k < slab_.size(); ++k) slab_[k] = static_cast<int32_t>(k);
    }
    const int64_t most = std::max((16 << 10) / (64 * step_), compact_ ? 0 : 4 * taps.span);
    constexpr int64_t L = kLanes<Wide>;
    for (int64_t begin = 0; begin < taps.output;) {
      // The last tile has at least as many outputs as a vector, some of them a second time.
      LaneTile tile = tile_from(taps, begin, most);
      const int64_t count = tile.end - begin;
      if (tile.end < taps.output && count > L) tile = tile_from(taps, begin, most, count / L * L);
      if (tile.end == taps.output && tile.end - begin < L && begin > 0) {
        tile = tile_from(taps, std::max<int64_t>(0, taps.output - L), 1 << 30);
      }
      tiles_.push_back(tile);
      const int64_t slabs = compact_ ? place(tile.end) - place(tile.begin) : tile.high - tile.low;
      widest_tile_ = std::max(widest_tile_, slabs);
      begin = tile.end;
    }
  }
  LaneTile tile_from(const TapTable<Wide>& taps, int64_t begin, int64_t most,
                     int64_t outputs = std::numeric_limits<int64_t>::max()) const {
    LaneTile tile{begin, begin, std::numeric_limits<int32_t>::max(), -1};
    for (int64_t o = begin; o < taps.output && o - begin < outputs; ++o) {
      int64_t low = tile.low, high = tile.high;
      for (int64_t k = place(o); k < place(o + 1); ++k) {
        if (index_[k] < 0) continue;
        low = std::min<int64_t>(low, index_[k]);
        high = std::max<int64_t>(high, index_[k] + 1);
      }
      const int64_t slabs = compact_ ? place(o + 1) - place(begin) : high - low;
      if (o > begin && slabs > most) break;
      tile = {begin, o + 1, low, high};
    }
    if (tile.high < 0) tile.low = tile.high = 0;  // no taps
    return tile;
  }

  int64_t step_;
  int few_;
  bool compact_ = false;
  int64_t widest_tile_ = 0;
  std::vector<int32_t> index_, slab_;
  std::vector<Wide> weight_;
  std::vector<int32_t> fours_;
  std::vector<LaneTile> tiles_;
};

}  // namespace myops::resize::MYOPS_ISA
