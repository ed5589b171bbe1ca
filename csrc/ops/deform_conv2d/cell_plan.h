// How CellGradient (cell_gradient.h) divides a call: tiles, items, sizes of tables, and the weights
// of an offset group. When it is used is decided here, too.
#pragma once

#include "cell_table.h"

namespace myops::deform::MYOPS_ISA {

// Channels of one weight group and its outputs; their weights are stored as [output][channel][tap]
// from `begin` times the number of taps on.
struct GroupPart {
  Range channels, outputs;
  int64_t begin;
  int64_t row(int64_t taps) const { return channels.count() * taps; }
};

// The weights of an offset group, whose channels may belong to several weight groups.
struct GroupWeights {
  // Calls body(part) for each weight group of some channels.
  template <class Body>
  static void for_each(const ConvShape& conv, const Range& channels, const Body& body) {
    const int64_t C = conv.group_channels(), O = conv.group_outputs();
    int64_t begin = 0;
    for (int64_t group = channels.first / C; group * C < channels.last; ++group) {
      const GroupPart part{
          {std::max(channels.first, group * C), std::min(channels.last, (group + 1) * C)},
          {group * O, (group + 1) * O},
          begin};
      body(part);
      begin += part.channels.count() * O;
    }
  }
  // The outputs that depend on some channels.
  static Range outputs_of(const ConvShape& conv, const Range& channels) {
    const int64_t C = conv.group_channels(), O = conv.group_outputs();
    return {channels.first / C * O, ((channels.last - 1) / C + 1) * O};
  }
  static int64_t outputs(const ConvShape& conv) {  // at most, of an offset group
    const int64_t groups = panels(conv.channels_per_offset() - 1, conv.group_channels()) + 1;
    return std::min(groups, conv.groups) * conv.group_outputs();
  }
  static int64_t size(const ConvShape& conv) {
    return conv.channels_per_offset() * conv.group_outputs() * conv.taps;
  }
  // Where those of a block of taps begin, among those of all offset groups.
  static int64_t begin(const ConvShape& conv, int64_t offset_group, const Range& taps) {
    return (offset_group * conv.taps + taps.first) * (size(conv) / conv.taps);
  }
};

// The cells of a tile if offsets are not large.
inline int64_t usual_cells(const ConvShape& conv, const Tiling& tiling) {
  constexpr int64_t kMostOffset = 8;  // pixels that are covered on each side
  const Tile tile = tiling.at(0, 0);
  const int64_t kernel_height = conv.taps / conv.kernel_width;
  const auto span = [](int64_t count, int64_t stride, int64_t taps, int64_t dilation,
                       int64_t most) {
    return std::min((count - 1) * stride + (taps - 1) * dilation + 3 + 2 * kMostOffset, most + 3);
  };
  return span(tile.rows, conv.stride_y, kernel_height, conv.dilation_y, conv.height) *
         span(tile.columns, conv.stride_x, conv.kernel_width, conv.dilation_x, conv.width);
}
// The cells of a table, at most `most`: those of the image, or twice as many as a tile needs.
inline int64_t cells_of_table(const ConvShape& conv, const Tiling& tiling, int64_t most) {
  constexpr int64_t kLeast = 16;  // a sample reads 2 x 2 pixels: a table of 3 x 3
  const double image = static_cast<double>(conv.height + 3) * static_cast<double>(conv.width + 3);
  const int64_t all = static_cast<int64_t>(std::min(image, 1e9));
  return std::max(std::min({2 * usual_cells(conv, tiling), all, most}), kLeast);
}

// A tile of one image for one offset group and one block of taps. A unit is an offset group of an
// image.
struct CellItem {
  int64_t unit, image, offset_group, tile;
  Range taps, channels;
};

// T: the type of the tensors.
template <class T>
class CellPlan {
 public:
  using A = Accumulate<T>;

  static bool supports(const ConvShape& conv) {
    return few(conv) && GroupWeights::size(conv) <= kMostWeights &&
           GroupWeights::outputs(conv) <= kMostOutputs &&
           kernel_enabled("deform_conv2d.cell_tables");
  }

  explicit CellPlan(const ConvShape& conv)
      : conv_(conv),
        taps_(Blocking(conv).taps),
        channels_(conv.channels_per_offset()),
        tiling_(make_tiling()),
        cells_(cells_of_table(conv, tiling_, kTable / (4 * channels_))) {}

  int64_t taps() const { return taps_; }          // of a block
  int64_t channels() const { return channels_; }  // of an offset group
  const Tiling& tiling() const { return tiling_; }
  int64_t table_cells() const { return cells_; }
  int64_t table() const { return channels_ * table_size<A>(cells_); }  // elements

  int64_t units() const { return conv_.batch * conv_.offset_groups; }  // ordered by image
  int64_t unit_items() const { return panels(conv_.taps, taps_) * tiling_.count(); }
  // An item of some units. Where offset groups have the same, many outputs, their items of a tile
  // follow one another: then its gradient of Y, which all of them read, is still in a cache.
  CellItem item(const Range& units, int64_t index) const {
    const int64_t groups = conv_.offset_groups, side = side_by_side(units.count());
    const int64_t unit = units.first + index / (side * unit_items()) * side + index % side;
    const int64_t rest = index / side % unit_items(), k = rest / tiling_.count() * taps_;
    const int64_t group = unit % groups;
    return {unit,
            unit / groups,
            group,
            rest % tiling_.count(),
            {k, std::min(k + taps_, conv_.taps)},
            {group * channels_, (group + 1) * channels_}};
  }
  // Items that a thread makes before they are added: small ones take less time than two threads
  // need to take turns. (1000x4x7x2, 1x1, 4 offset groups took four times as long with two
  // threads.) With many outputs no item is small; and each of these items would read the gradient
  // of Y again.
  int64_t items_together(int64_t items) const {
    constexpr int64_t kLeastEntries = 4096, kMost = 32, kLeastParts = 16, kOutputs = 16;
    const int64_t entries = tiling_.pixels() * taps_ * channels_;
    const int64_t work = std::max<int64_t>(entries + entries / kOutputs * conv_.group_outputs(), 1);
    return std::clamp<int64_t>(std::min(kLeastEntries / work, items / kLeastParts), 1, kMost);
  }
  // The units from `first` on whose gradients of X are summed at a time in 16-bit types.
  Range units_from(int64_t first) const {
    int64_t most = units_together();
    if (most > conv_.offset_groups) most -= most % conv_.offset_groups;  // whole images
    return {first, std::min(first + most, units())};
  }

  // The sums of 16-bit gradients of X: so many units, and so many rows of each, fit the buffer.
  int64_t units_together() const {
    const double image = static_cast<double>(channels_) * static_cast<double>(conv_.height) *
                         static_cast<double>(conv_.width);
    return std::clamp<int64_t>(
        static_cast<int64_t>(static_cast<double>(kImage) / std::max(image, 1.0)), 1, units());
  }
  int64_t rows_together() const {
    return std::clamp<int64_t>(kImage / (channels_ * conv_.width), 1,
                               std::max<int64_t>(conv_.height, 1));
  }

 private:
  static constexpr int64_t kCellChannels = 4;
  static constexpr int64_t kFewWeights = 1024;     // of a channel
  static constexpr int64_t kMostWeights = 131072;  // of an offset group
  static constexpr int64_t kMostOutputs = 1024, kManyOutputs = 32;
  static constexpr int64_t kTable = 393216 / sizeof(A);      // elements of a table
  static constexpr int64_t kRows = 131072 / sizeof(A);       // of T
  static constexpr int64_t kGradients = 262144 / sizeof(A);  // of Y, of a tile
  static constexpr int64_t kItem = 1310720 / sizeof(A);      // all of an item
  static constexpr int64_t kImage = 1048576 / sizeof(A);     // sums of 16-bit types
  static constexpr int64_t kLeastPixels = 256, kFewUnits = 4, kTilesOfAUnit = 4;

  // Units whose items of a tile follow one another.
  int64_t side_by_side(int64_t units) const {
    const int64_t sharing = std::min(conv_.group_channels() / channels_, units);
    const bool many = conv_.group_outputs() >= kManyOutputs;
    return many && sharing > 0 && units % sharing == 0 ? sharing : 1;
  }

  // Vectors of channels are used badly by few channels, and by those of several weight groups,
  // which products take apart. In float64 vectors are half as long, and tables twice as large.
  static bool few(const ConvShape& conv) {
    constexpr bool kWide = sizeof(A) == sizeof(double);
    const int64_t channels = conv.channels_per_offset();
    const bool one = conv.groups == 1 || conv.group_channels() % channels == 0;  // weight group
    if (sparse(conv, one)) return false;
    if (one) {
      if (kWide) return channels < kCellChannels - 1;
      return channels < kCellChannels ||
             (channels == kCellChannels && conv.group_outputs() * conv.taps <= kFewWeights);
    }
    if (kWide) return channels <= kCellChannels / 2;
    return channels <= (conv.depthwise() ? kCellChannels : 2 * kCellChannels);
  }
  // Few samples for each pixel of X, as with few taps and a stride of 2: filling and clearing
  // tables and adding them to X, which is done for every channel, takes longer than the other
  // kernels. With more outputs these lose again, most of all where an offset group has several
  // weight groups. In 16-bit types they win with four channels and few outputs only. The numbers
  // are fitted to times of random convolutions.
  static bool sparse(const ConvShape& conv, bool one_weight_group) {
    constexpr bool kWide = sizeof(A) == sizeof(double);
    const int64_t channels = conv.channels_per_offset();
    if (channels == 1 || (kWide && !one_weight_group)) return false;
    const bool wins = channels >= kCellChannels && one_weight_group && conv.group_outputs() <= 16;
    if (sizeof(T) < sizeof(A) && !wins) return false;
    const int64_t cells = (kWide ? 2 : 1) * channels * conv.stride_y * conv.stride_x;
    const int64_t outputs = conv.group_outputs() * (one_weight_group ? 1 : 16);
    return 40 * cells > (180 + outputs) * conv.taps;
  }

  // The buffers of ItemGradient: tables and windows; gradients of Y and of samples, positions.
  int64_t item_elements(const Tiling& tiling) const {
    const int64_t cells = cells_of_table(conv_, tiling, kTable / (4 * channels_));
    return 9 * channels_ * cells +
           tiling.pixels() * (GroupWeights::outputs(conv_) + (channels_ + 13) * taps_);
  }
  // Tiles of as many pixels as buffers have space for, if their cells fill at most half of a table.
  // The rows of long ones are divided where that saves more than half of the cells of a pixel: a
  // tile of one row of 224 pixels has 19 rows of cells, and offsets of 6 pixels made its samples
  // too far apart (2x3x100x224, 1x3: a third of the time).
  Tiling make_tiling() const {
    constexpr int64_t kFewColumns = 32;
    const int64_t outputs = std::max<int64_t>(GroupWeights::outputs(conv_), 1);
    int64_t most = std::min(
        {4 * kPixels<A>, kEntries<A> / taps_, kRows / (taps_ * channels_), kGradients / outputs});
    if (units() < kFewUnits) {  // several items, for several threads
      const double all =
          static_cast<double>(conv_.out_height) * static_cast<double>(conv_.out_width);
      most = std::min(most, static_cast<int64_t>(std::min(all, 1e9)) / kTilesOfAUnit);
    }
    most = std::max(most, kLeastPixels);
    Tiling best(conv_, kLeastPixels, kFewColumns);
    double least = std::numeric_limits<double>::infinity();
    for (int64_t pixels = most; pixels >= kLeastPixels; pixels /= 2) {
      for (int64_t columns = INT64_MAX; columns >= kFewColumns;) {
        const Tiling tiling(conv_, pixels, columns);
        const int64_t cells = usual_cells(conv_, tiling);
        const double each = static_cast<double>(cells) / static_cast<double>(tiling.pixels());
        if (8 * channels_ * cells <= kTable && each < 0.45 * least &&
            item_elements(tiling) <= kItem) {
          least = each;
          best = tiling;
        }
        columns = (tiling.at(0, 0).columns + 1) / 2;
      }
    }
    return best;
  }

  const ConvShape& conv_;
  int64_t taps_, channels_;
  Tiling tiling_;
  int64_t cells_;
};

}  // namespace myops::deform::MYOPS_ISA
