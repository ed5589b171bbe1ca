// All gradients of a convolution with few channels in each offset group, in one pass: vectors run
// over the pixels of a tile (see cell_table.h).
//
// An item is a tile of one image for one offset group and one block of taps. Some items at a time
// are computed side by side, each into a slot: its table of the gradient of X and its part of the
// gradient of W. The slots are then added to the results in order. An item whose samples are too
// far apart for a table is computed after that, in parts. 16-bit gradients of X are summed in
// float32, for a band of rows at a time; then all gradients but that of X are computed with the
// first band.
#pragma once

#include "cell_table.h"
#include "columns.h"
#include "gradient.h"
#include "pixel_products.h"
#include "write_positions.h"

namespace myops::deform::MYOPS_ISA {

template <class T>
class CellGradient {
 public:
  using A = Accumulate<T>;

  struct Outputs {  // not present: not needed
    Tensor X, W, offset, mask;
  };

  static bool supports(const ConvShape& conv, const Inputs<T>& inputs) {
    return few(conv) && !inputs.changes() && Weights::size(conv) <= kMostWeights &&
           Weights::outputs(conv) <= kMostOutputs && kernel_enabled("deform_conv2d.cell_tables");
  }

  // Vectors of channels are used badly by few channels, and by those of several weight groups,
  // which products take apart.
  static bool few(const ConvShape& conv) {
    const int64_t channels = conv.channels_per_offset();
    if (conv.groups == 1 || conv.group_channels() % channels == 0) {
      return channels < kCellChannels ||
             (channels == kCellChannels && conv.group_outputs() * conv.taps <= kFewWeights);
    }
    return channels <= (conv.depthwise() ? kCellChannels : 2 * kCellChannels);
  }

  CellGradient(const KernelContext& context, const ConvShape& conv, const Inputs<T>& inputs,
               const Tensor& gradient, const Tensor& W, const Outputs& outputs)
      : context_(context),
        conv_(conv),
        inputs_(inputs),
        gradient_tensor_(gradient),
        gradient_(gradient),
        W_(W),
        X_out_(outputs.X),
        W_out_(outputs.W),
        positions_{StridedView<T>(outputs.offset), StridedView<T>(outputs.mask)},
        taps_(Blocking(conv).taps),
        channels_(conv.channels_per_offset()),
        tiling_(conv, tile_pixels()),
        table_(table_size()),
        slots_(std::clamp<int64_t>(kSlotBytes / (table_ * static_cast<int64_t>(sizeof(A))), 2, 8)) {
  }

  void run() const;

 private:
  static constexpr int64_t kCellChannels = 4;
  static constexpr int64_t kFewWeights = 1024;     // of a channel
  static constexpr int64_t kMostWeights = 131072;  // of an offset group
  static constexpr int64_t kMostOutputs = 1024;
  static constexpr int64_t kTable = 393216 / sizeof(A);      // elements of a table
  static constexpr int64_t kRows = 131072 / sizeof(A);       // of T
  static constexpr int64_t kGradients = 262144 / sizeof(A);  // of Y, of a tile
  static constexpr int64_t kImage = 1048576 / sizeof(A);     // sums of 16-bit types
  static constexpr int64_t kSlotBytes = std::is_same_v<T, A> ? 1572864 : 786432;
  static constexpr int64_t kStrip = 256;     // pixels
  static constexpr int64_t kMostOffset = 8;  // pixels that tables cover on each side
  static constexpr int64_t kLeastPixels = 256, kFewUnits = 4, kTilesOfAUnit = 4;
  static constexpr int64_t kAdders = 4;  // tasks that add slots

  // Channels of one weight group and its outputs; their weights are stored as
  // [output][channel][tap] from `begin` times the number of taps on.
  struct Part {
    Range channels, outputs;
    int64_t begin;
    int64_t row(int64_t taps) const { return channels.count() * taps; }
  };
  struct Weights {
    // Calls body(part) for each weight group of some channels.
    template <class Body>
    static void for_each(const ConvShape& conv, const Range& channels, const Body& body) {
      const int64_t C = conv.group_channels(), O = conv.group_outputs();
      int64_t begin = 0;
      for (int64_t group = channels.first / C; group * C < channels.last; ++group) {
        const Part part{
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
  };

  struct Item {
    int64_t unit, image, offset_group, tile;
    Range taps, channels;
    bool operator==(const Item& other) const {
      return unit == other.unit && tile == other.tile && taps.first == other.taps.first;
    }
  };
  struct Slot {
    Item item{};
    CellBox cells;
    bool filled = false, deferred = false, weighed = false;
  };
  // What of an item is computed.
  struct Wanted {
    bool moved, W;
    Range rows;  // of the gradient of X
  };
  // Where sums of the gradient of X of a unit begin, for the first of some rows.
  struct Target {
    A* data;
    int64_t channel, row, pixel;
  };

  class Worker;

  int64_t units() const { return conv_.batch * conv_.offset_groups; }
  int64_t tap_blocks() const { return panels(conv_.taps, taps_); }
  int64_t unit_items() const { return tap_blocks() * tiling_.count(); }
  bool moves() const { return positions_.offset || positions_.mask; }

  // Units are ordered by offset group, so that a group's gradient of W is complete before the next.
  Item item(int64_t index) const {
    const int64_t unit = index / unit_items(), rest = index % unit_items();
    const int64_t group = unit / conv_.batch, k = rest / tiling_.count() * taps_;
    return {unit,
            unit % conv_.batch,
            group,
            rest % tiling_.count(),
            {k, std::min(k + taps_, conv_.taps)},
            {group * channels_, (group + 1) * channels_}};
  }

  // The pixels that samples of a tile read if offsets are not large.
  int64_t usual_cells(const Tiling& tiling) const {
    const Tile tile = tiling.at(0, 0);
    const int64_t kernel_height = conv_.taps / conv_.kernel_width;
    const auto span = [](int64_t count, int64_t stride, int64_t taps, int64_t dilation,
                         int64_t most) {
      return std::min((count - 1) * stride + (taps - 1) * dilation + 3 + 2 * kMostOffset, most + 3);
    };
    return span(tile.rows, conv_.stride_y, kernel_height, conv_.dilation_y, conv_.height) *
           span(tile.columns, conv_.stride_x, conv_.kernel_width, conv_.dilation_x, conv_.width);
  }
  int64_t tile_pixels() const {
    const int64_t outputs = std::max<int64_t>(Weights::outputs(conv_), 1);
    int64_t pixels = std::min(
        {4 * kPixels<A>, kEntries<A> / taps_, kRows / (taps_ * channels_), kGradients / outputs});
    if (units() < kFewUnits) {  // several items, for several threads
      const double all =
          static_cast<double>(conv_.out_height) * static_cast<double>(conv_.out_width);
      pixels = std::min(pixels, static_cast<int64_t>(std::min(all, 1e9)) / kTilesOfAUnit);
    }
    pixels = std::max(pixels, kLeastPixels);
    while (pixels > kLeastPixels &&
           4 * channels_ * usual_cells(Tiling(conv_, pixels)) > kTable / 2) {
      pixels /= 2;
    }
    return pixels;
  }
  int64_t table_size() const {
    const double image =
        static_cast<double>(conv_.height + 3) * static_cast<double>(conv_.width + 3);
    const int64_t most = static_cast<int64_t>(std::min(image, 1e9));
    const int64_t wanted = std::min({2 * usual_cells(tiling_), most, kTable / (4 * channels_)});
    return channels_ * 4 * (std::max(wanted, least_cells()) + kLanes<A> + 1);
  }
  // A sample reads 2 x 2 pixels, so its table has 3 x 3.
  static constexpr int64_t least_cells() { return 16; }
  int64_t table_cells() const { return table_ / (4 * channels_) - kLanes<A> - 1; }

  void clear(const StridedView<T>& out) const {  // outputs are dense in either layout
    context_.parallel_for(out.end - out.data, 1 << 18, [&](int64_t begin, int64_t end) {
      std::fill(out.data + begin, out.data + end, T{});
    });
  }
  void run_items(const Range& units, const Range& rows, bool first, A* sums, A* totals) const;
  Target target(const Range& units, const Range& rows, int64_t unit, A* sums) const;
  void add_slots(const std::vector<Slot>& slots, int64_t count, const Range& units,
                 const Range& rows, const A* tables, A* sums) const;
  void add_weights(const Item& item, const A* part, A* totals) const;
  void write_weights(const Item& item, const A* totals) const;
  void write_rows(const Range& units, const Range& rows, const A* sums) const;

  const KernelContext& context_;
  const ConvShape& conv_;
  const Inputs<T>& inputs_;
  const Tensor& gradient_tensor_;
  StridedView<const T> gradient_, W_;
  StridedView<T> X_out_, W_out_;
  PositionOutputs<T> positions_;
  int64_t taps_, channels_;  // of a block of taps; of an offset group
  Tiling tiling_;
  int64_t table_, slots_;
};

// The buffers of one task.
template <class T>
class CellGradient<T>::Worker {
 public:
  explicit Worker(const CellGradient& whole)
      : whole_(whole),
        conv_(whole.conv_),
        row_(round_up(whole.tiling_.pixels(), kLanes<A>) + kLanes<A>),
        at_(whole.context_, conv_, whole.inputs_.positions, whole.taps_, whole.tiling_.pixels(),
            true),
        gradient_(whole.context_, Weights::outputs(conv_) * row_),
        weights_(whole.context_, Weights::size(conv_)),
        rows_(whole.context_, whole.channels_ * whole.taps_ * row_),
        moved_(whole.context_, whole.moves() ? 3 * whole.taps_ * whole.tiling_.pixels() : 0),
        window_(whole.context_,
                reads() ? whole.channels_ * whole.table_cells() + 3 * kLanes<A> : 0),
        table_(whole.context_, reads() ? whole.table_ : 0) {}

  // Computes the positions of an item; the cells of its samples.
  Box place(const Item& item) {
    item_ = item;
    tile_ = whole_.tiling_.at(item.image, item.tile);
    at_.place(conv_, tile_, item.offset_group, item.taps);
    return at_.extent();
  }
  // The item as a whole. `out`: the table of the gradient of X, or null; `W`: its part of the
  // gradient of W, or null.
  void run(const CellBox& cells, bool moved, A* out, A* W) {
    prepare(moved || out != nullptr, W != nullptr);
    run_entries({0, item_.taps.count(), 0, tile_.pixels()}, cells, moved, W != nullptr, out);
    finish(moved, W);
  }
  // The same in parts; add(cells) adds the table to the gradient of X.
  template <class Add>
  void run_parts(bool moved, A* out, A* W, const Add& add) {
    prepare(moved || out != nullptr, W != nullptr);
    // A table is one row and one column larger than what is read: 9 cells for 4 pixels.
    in_windows(at_, {0, item_.taps.count(), 0, tile_.pixels()}, whole_.table_cells() * 4 / 9,
               [&](const Entries& entries, const Box& read) {
                 const CellBox cells(read);
                 run_entries(entries, cells, moved, W != nullptr, out);
                 if (out != nullptr) add(cells);
               });
    finish(moved, W);
  }

 private:
  bool reads() const { return whole_.moves() || whole_.W_out_; }
  int64_t tap_row() const { return item_.taps.count() * row_; }  // from a channel to the next

  void prepare(bool sums, bool weights) {
    outputs_ = Weights::outputs_of(conv_, item_.channels);
    pixels_ = tile_.pixels();
    if (sums || weights) read_gradient();
    if (!sums) return;
    pack_weights();
    Weights::for_each(conv_, item_.channels, [&](const Part& part) {
      const int64_t taps = item_.taps.count(), rows = part.row(taps);
      weighted_sums<A>(
          rows, part.outputs.count(), {weights_.get() + part.begin * taps, rows},
          {from_.data + (part.outputs.first - outputs_.first) * from_.row, from_.row},
          {rows_.get() + (part.channels.first - item_.channels.first) * tap_row(), row_}, pixels_);
    });
  }
  // Reads the gradient of Y in place if it is read about once, otherwise copies it.
  void read_gradient() {
    const StridedView<const T>& G = whole_.gradient_;
    if constexpr (std::is_same_v<T, A>) {
      const bool together = G.step[2] == tile_.columns && G.step[3] == 1;
      if (together && whole_.channels_ * item_.taps.count() <= kSumRows) {
        from_ = {G.at(tile_.image, outputs_.first, tile_.top, tile_.left), G.step[1]};
        return;
      }
    }
    from_ = {gradient_.get(), row_};
    if (tile_ == held_ && held_outputs_.first == outputs_.first &&
        held_outputs_.last == outputs_.last) {
      return;
    }
    read_by_output(G, tile_, {0, pixels_}, outputs_, gradient_.get(), row_);
    held_ = tile_;
    held_outputs_ = outputs_;
  }
  void pack_weights() {
    if (packed_.first == item_.offset_group && packed_.last == item_.taps.first) return;
    packed_ = {item_.offset_group, item_.taps.first};
    A* to = weights_.get();
    const StridedView<const T>& W = whole_.W_;
    Weights::for_each(conv_, item_.channels, [&](const Part& part) {
      for (int64_t o = part.outputs.first; o < part.outputs.last; ++o) {
        for (int64_t c = part.channels.first; c < part.channels.last; ++c) {
          const T* from = W.at(o, c % conv_.group_channels(), 0, 0);
          for (int64_t k = item_.taps.first; k < item_.taps.last; ++k) {
            *to++ = static_cast<A>(
                from[k / conv_.kernel_width * W.step[2] + k % conv_.kernel_width * W.step[3]]);
          }
        }
      }
    });
  }

  void run_entries(const Entries& entries, const CellBox& cells, bool moved, bool samples, A* out) {
    const int64_t size = cells.channel<A>();
    if (moved || samples) {
      fill_cells(whole_.inputs_.X, conv_, tile_.image, item_.channels, cells, window_.get(),
                 table_.get());
    }
    if (out != nullptr) std::fill_n(out, whole_.channels_ * size, A{});
    at_.locate(entries, cells.box, 4);
    // All taps of some pixels, whose cells stay in the L1 cache.
    for (int64_t p = entries.first; p < entries.last; p += kStrip) {
      const int64_t pixels = std::min(kStrip, entries.last - p), taps = item_.taps.count();
      for (int64_t k = entries.first_tap; k < entries.last_tap; ++k) {
        const int64_t entry = k * at_.stride() + p;
        A* const moves = moved ? moved_.get() + 2 * k * pixels_ + p : nullptr;
        A* const masks = moved ? moved_.get() + (2 * taps + k) * pixels_ + p : nullptr;
        run_cells(CellStrip<A>{at_.index() + entry, pixels, at_.values() + entry,
                               at_.points() + entry, at_.plane(), rows_.get() + k * row_ + p,
                               tap_row(), whole_.channels_, table_.get(), out, size,
                               static_cast<int32_t>(cells.outside<A>()), moves, masks, pixels_},
                  samples);
      }
    }
  }

  void finish(bool moved, A* W) {
    if (moved) {
      whole_.positions_.write(conv_, tile_, item_.offset_group, item_.taps, moved_.get());
    }
    if (W == nullptr) return;
    Weights::for_each(conv_, item_.channels, [&](const Part& part) {
      const int64_t taps = item_.taps.count(), count = part.row(taps);
      dot_products<A>(
          part.outputs.count(), count,
          {from_.data + (part.outputs.first - outputs_.first) * from_.row, from_.row},
          {rows_.get() + (part.channels.first - item_.channels.first) * tap_row(), row_}, pixels_,
          {W + part.begin * taps, count});
    });
  }

  const CellGradient& whole_;
  const ConvShape& conv_;
  int64_t row_;  // of planes of a tile
  Item item_{};
  Tile tile_{};
  Range outputs_{0, 0};
  int64_t pixels_ = 0;
  Taps<T> at_;
  Rows<const A> from_{nullptr, 0};  // the gradient of Y
  Buffer<A> gradient_, weights_, rows_, moved_, window_, table_;
  Tile held_{-1, 0, 0, 0, 0};  // of the gradient of Y
  Range held_outputs_{0, 0};
  Range packed_{-1, -1};  // offset group and first tap of the weights
};

template <class T>
void CellGradient<T>::run() const {
  const char* what = moves() ? (X_out_ ? "X, offset and mask" : "offset and mask") : "X";
  if (X_out_ || moves()) {
    context_.report("cell_tables", what,
                    "few channels in an offset group: vectors run over pixels");
  }
  if (W_out_) context_.report("cell_tables", "W", "the samples are made already");
  if (X_out_) clear(X_out_);
  if (W_out_) clear(W_out_);
  if (units() * unit_items() == 0) return;
  const Buffer<A> totals(context_, W_out_ ? Weights::size(conv_) : 0);
  if (W_out_) totals.zero(Weights::size(conv_));
  const Range all_rows{0, conv_.height}, all_units{0, units()};
  if (std::is_same_v<T, A> || !X_out_) {
    return run_items(all_units, all_rows, true, nullptr, totals.get());
  }
  const double image = static_cast<double>(channels_) * static_cast<double>(conv_.height) *
                       static_cast<double>(conv_.width);
  const int64_t together = std::clamp<int64_t>(
      static_cast<int64_t>(static_cast<double>(kImage) / std::max(image, 1.0)), 1, units());
  const int64_t band = std::clamp<int64_t>(kImage / (channels_ * conv_.width), 1,
                                           std::max<int64_t>(conv_.height, 1));
  const Buffer<A> sums(context_, together * channels_ * band * conv_.width);
  for (int64_t unit = 0; unit < units(); unit += together) {
    const Range some{unit, std::min(unit + together, units())};
    for (int64_t y = 0; y < conv_.height; y += band) {
      const Range rows{y, std::min(y + band, conv_.height)};
      sums.zero(some.count() * channels_ * rows.count() * conv_.width);
      run_items(some, rows, y == 0, sums.get(), totals.get());
      write_rows(some, rows, sums.get());
    }
  }
}

template <class T>
void CellGradient<T>::run_items(const Range& units, const Range& rows, bool first, A* sums,
                                A* totals) const {
  const int64_t part = Weights::outputs(conv_) * channels_ * taps_;
  const bool moved = first && moves(), weighs = first && W_out_;
  const Buffer<A> tables(context_, X_out_ ? slots_ * table_ : 0);
  const Buffer<A> parts(context_, weighs ? slots_ * part : 0);
  const Buffer<A> line(context_, X_out_ ? line_size<A>(table_cells(), channels_) : 0);
  std::vector<Slot> slots(static_cast<size_t>(slots_));
  Pool<Worker> workers;
  const auto make = [&] { return Worker(*this); };
  const auto table_of = [&](int64_t slot) {
    return X_out_ ? tables.get() + slot * table_ : nullptr;
  };
  const auto part_of = [&](int64_t slot) { return weighs ? parts.get() + slot * part : nullptr; };
  const auto touches = [&](const Box& box) {
    return X_out_ && box.pixels() > 0 && box.top < rows.last && box.bottom > rows.first;
  };
  const int64_t end = units.last * unit_items();
  for (int64_t begin = units.first * unit_items(); begin < end; begin += slots_) {
    const int64_t count = std::min(slots_, end - begin);
    context_.parallel_for(count, 1, [&](int64_t index, int64_t) {
      Slot& slot = slots[static_cast<size_t>(index)];
      slot.item = item(begin + index);
      slot.filled = slot.deferred = false;
      std::unique_ptr<Worker> worker = workers.take(make);
      const Box box = worker->place(slot.item);
      const CellBox cells(box);
      if (cells.box.pixels() > table_cells()) {
        slot.deferred = moved || weighs || touches(box);
      } else if (moved || weighs || touches(box)) {
        slot.filled = touches(box);
        slot.cells = cells;
        worker->run(cells, moved, slot.filled ? table_of(index) : nullptr, part_of(index));
      }
      workers.give_back(std::move(worker));
    });
    add_slots(slots, count, units, rows, tables.get(), sums);
    for (int64_t index = 0; index < count; ++index) {
      const Slot& slot = slots[static_cast<size_t>(index)];
      if (slot.deferred) {
        std::unique_ptr<Worker> worker = workers.take(make);
        const bool fills = touches(worker->place(slot.item));
        A* const table = fills ? table_of(index) : nullptr;
        const Target to = target(units, rows, slot.item.unit, sums);
        worker->run_parts(moved, table, part_of(index), [&](const CellBox& cells) {
          add_table(cells, table, channels_, rows, conv_.width, to.data, to.channel, to.row,
                    to.pixel, line.get());
        });
        workers.give_back(std::move(worker));
      }
      if (!weighs) continue;
      add_weights(slot.item, part_of(index), totals);
    }
  }
}

template <class T>
typename CellGradient<T>::Target CellGradient<T>::target(const Range& units, const Range& rows,
                                                         int64_t unit, A* sums) const {
  if constexpr (std::is_same_v<T, A>) {
    const int64_t first = unit / conv_.batch * channels_;
    return {X_out_ ? X_out_.at(unit % conv_.batch, first, rows.first, 0) : nullptr, X_out_.step[1],
            X_out_.step[2], X_out_.step[3]};
  } else {
    const int64_t plane = rows.count() * conv_.width;
    return {sums + (unit - units.first) * channels_ * plane, plane, conv_.width, 1};
  }
}

// Each task adds some rows of all slots, in their order.
template <class T>
void CellGradient<T>::add_slots(const std::vector<Slot>& slots, int64_t count, const Range& units,
                                const Range& rows, const A* tables, A* sums) const {
  Range all{rows.last, rows.first};
  for (int64_t index = 0; index < count; ++index) {
    const Slot& slot = slots[static_cast<size_t>(index)];
    if (!slot.filled) continue;
    all = {std::min(all.first, std::max(slot.cells.box.top, rows.first)),
           std::max(all.last, std::min(slot.cells.box.bottom, rows.last))};
  }
  if (all.first >= all.last) return;
  const int64_t each = panels(all.count(), kAdders);
  context_.parallel_for(all.count(), each, [&](int64_t begin, int64_t end) {
    const Buffer<A> line(context_, line_size<A>(table_cells(), channels_));
    const Range own{all.first + begin, all.first + end};
    for (int64_t index = 0; index < count; ++index) {
      const Slot& slot = slots[static_cast<size_t>(index)];
      if (!slot.filled) continue;
      const Target to = target(units, rows, slot.item.unit, sums);
      add_table(slot.cells, tables + index * table_, channels_, own, conv_.width,
                to.data + (own.first - rows.first) * to.row, to.channel, to.row, to.pixel,
                line.get());
    }
  });
}

template <class T>
void CellGradient<T>::add_weights(const Item& item, const A* part, A* totals) const {
  const int64_t pairs = channels_ * conv_.group_outputs(), size = pairs * item.taps.count();
  add_to(part, 1, size, totals + pairs * item.taps.first);
  const bool last = item.image + 1 == conv_.batch && item.taps.last == conv_.taps &&
                    item.tile + 1 == tiling_.count();
  if (!last) return;
  write_weights(item, totals);
  std::fill_n(totals, pairs * conv_.taps, A{});
}

template <class T>
void CellGradient<T>::write_weights(const Item& item, const A* totals) const {
  const int64_t pairs = channels_ * conv_.group_outputs(), width = conv_.kernel_width;
  for (int64_t first = 0; first < conv_.taps; first += taps_) {
    const int64_t count = std::min(taps_, conv_.taps - first);
    Weights::for_each(conv_, item.channels, [&](const Part& part) {
      const A* from = totals + pairs * first + part.begin * count;
      for (int64_t o = part.outputs.first; o < part.outputs.last; ++o) {
        for (int64_t c = part.channels.first; c < part.channels.last; ++c, from += count) {
          T* const to = W_out_.at(o, c % conv_.group_channels(), 0, 0);
          for (int64_t k = 0; k < count; ++k) {
            const int64_t tap = first + k;
            to[tap / width * W_out_.step[2] + tap % width * W_out_.step[3]] =
                static_cast<T>(from[k]);
          }
        }
      }
    });
  }
}

// Rounds the sums of some rows of 16-bit types.
template <class T>
void CellGradient<T>::write_rows(const Range& units, const Range& rows, const A* sums) const {
  const int64_t plane = rows.count() * conv_.width;
  context_.parallel_for(units.count(), 1, [&](int64_t index, int64_t) {
    const int64_t unit = units.first + index, first = unit / conv_.batch * channels_;
    const A* from = sums + index * channels_ * plane;
    T* const to = X_out_.at(unit % conv_.batch, first, rows.first, 0);
    if (X_out_.channels_last()) {
      transpose_copy(from, plane, to, X_out_.step[3], channels_, plane);
      return;
    }
    for (int64_t c = 0; c < channels_; ++c)
      narrow(from + c * plane, plane, to + c * X_out_.step[1]);
  });
}

}  // namespace myops::deform::MYOPS_ISA
