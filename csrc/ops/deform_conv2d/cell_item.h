// All gradients of one item (cell_plan.h): products of planes of pixels before and after
// run_cells(), which samples X and adds to the gradient of X.
#pragma once

#include "cell_plan.h"
#include "cell_strip.h"
#include "columns.h"
#include "gradient.h"
#include "pixel_products.h"
#include "write_results.h"

namespace myops::deform::MYOPS_ISA {

// What all items of a call read and write. Outputs are not present where they are not needed.
template <class T>
struct CellCall {
  const KernelContext& context;
  const ConvShape& conv;
  const Inputs<T>& inputs;
  StridedView<const T> gradient, W;
  StridedView<T> X_out, W_out;
  PositionOutputs<T> positions;
  CellPlan<T> plan;

  bool moves() const { return positions.offset || positions.mask; }
  bool samples() const { return moves() || W_out; }
};

// The buffers of one task, used for one item after another.
template <class T>
class ItemGradient {
 public:
  using A = Accumulate<T>;

  // `weights`: those of all offset groups (GroupWeights::begin), read if the gradient of X or of
  // positions is needed.
  ItemGradient(const CellCall<T>& call, const A* weights)
      : call_(call),
        conv_(call.conv),
        weights_(weights),
        row_(round_up(call.plan.tiling().pixels(), kLanes<A>) + kLanes<A>),
        at_(call.context, conv_, call.inputs.positions, call.plan.taps(),
            call.plan.tiling().pixels(), true),
        gradient_(call.context, GroupWeights::outputs(conv_) * row_),
        rows_(call.context, call.plan.channels() * call.plan.taps() * row_),
        moved_(call.context, call.moves() ? 3 * call.plan.taps() * call.plan.tiling().pixels() : 0),
        window_(call.context, call.samples()
                                  ? call.plan.channels() * call.plan.table_cells() + 3 * kLanes<A>
                                  : 0),
        table_(call.context, call.samples() ? call.plan.table() : 0),
        sums_(call.context, call.X_out ? call.plan.table() : 0),
        W_(call.context,
           call.W_out ? GroupWeights::outputs(conv_) * call.plan.channels() * call.plan.taps()
                      : 0) {
    gradient_.zero(GroupWeights::outputs(conv_) * row_);
    rows_.zero(call.plan.channels() * call.plan.taps() * row_);
  }

  // Computes the positions of an item; the cells of its samples.
  Box place(const CellItem& item) {
    item_ = item;
    tile_ = call_.plan.tiling().at(item.image, item.tile);
    at_.place(conv_, tile_, item.offset_group, item.taps);
    return at_.extent();
  }
  // What is computed of an item.
  struct Wanted {
    bool X, W, moved;
  };
  Entries entries() const { return {0, item_.taps.count(), 0, tile_.pixels()}; }
  // Whether each entry should have a cell of its own: filling a table with the cells of `read`,
  // clearing it and adding it would take longer, or it would be too large.
  bool apart(const Box& read) const {
    const int64_t count = entries().taps() * entries().pixels(), most = call_.plan.table_cells();
    return count <= most && (read.pixels() > kFar * count || CellBox(read).box.pixels() > most);
  }
  // The item as a whole; its gradient of X is in sums() then, of cells or of cells_of(entries()).
  void run(const CellBox& cells, const Wanted& wanted, bool far) {
    prepare(wanted);
    run_entries(entries(), far ? cells_of(entries()) : cells, wanted, far);
    finish(wanted);
  }
  // The same in parts; add(cells), or add_far(entries), adds sums() to the gradient of X.
  template <class Add, class AddFar>
  void run_parts(const Wanted& wanted, const Add& add, const AddFar& add_far) {
    prepare(wanted);
    run_part(entries(), wanted, add, add_far);
    finish(wanted);
  }

  const CellItem& item() const { return item_; }
  const Taps<T>& taps() const { return at_; }
  const A* sums() const { return sums_.get(); }  // the table of the gradient of X
  const A* W() const { return W_.get(); }        // the item's part of the gradient of W
  // The elements of W().
  int64_t W_size() const {
    return item_.channels.count() * conv_.group_outputs() * item_.taps.count();
  }

 private:
  static constexpr int64_t kStrip = 256;  // pixels
  static constexpr int64_t kFar = 4;      // cells of a table for each entry

  int64_t tap_row() const { return item_.taps.count() * row_; }  // from a channel to the next

  // T, unless only the gradient of W is wanted.
  void prepare(const Wanted& wanted) {
    outputs_ = GroupWeights::outputs_of(conv_, item_.channels);
    pixels_ = tile_.pixels();
    if (wanted.moved || wanted.X || wanted.W) read_gradient();
    if (!wanted.moved && !wanted.X) return;
    const A* const packed = weights_ + GroupWeights::begin(conv_, item_.offset_group, item_.taps);
    GroupWeights::for_each(conv_, item_.channels, [&](const GroupPart& part) {
      const int64_t taps = item_.taps.count(), rows = part.row(taps);
      weighted_sums<Result::Overwrite>(
          rows, part.outputs.count(), Rows<const A>{packed + part.begin * taps, rows},
          gradient_of(part), SumRows<A>{{rows_of(part), row_}}, pixels_);
    });
  }
  // Reads the gradient of Y in place if it is read about once, otherwise copies it.
  void read_gradient() {
    const StridedView<const T>& G = call_.gradient;
    if constexpr (std::is_same_v<T, A>) {
      const bool together = G.step[2] == tile_.columns && G.step[3] == 1;
      if (together && call_.plan.channels() * item_.taps.count() <= kSumRows) {
        from_ = {G.at(tile_.image, outputs_.first, tile_.top, tile_.left), G.step[1]};
        return;
      }
    }
    from_ = {gradient_.get(), row_};
    if (tile_ == held_ && held_outputs_ == outputs_) return;
    read_by_output(G, tile_, {0, pixels_}, outputs_, gradient_.get(), row_);
    held_ = tile_;
    held_outputs_ = outputs_;
  }
  // The rows of a part: gradients of Y; T or samples.
  Rows<const A> gradient_of(const GroupPart& part) const {
    return {from_.data + (part.outputs.first - outputs_.first) * from_.row, from_.row};
  }
  A* rows_of(const GroupPart& part) const {
    return rows_.get() + (part.channels.first - item_.channels.first) * tap_row();
  }

  template <class Add, class AddFar>
  void run_part(const Entries& entries, const Wanted& wanted, const Add& add,
                const AddFar& add_far) {
    const Box read = at_.extent(entries);
    const int64_t count = entries.taps() * entries.pixels(), most = call_.plan.table_cells();
    if (read.pixels() <= std::min(kFar * count, pixels_read(most))) {
      const CellBox cells(read);
      run_entries(entries, cells, wanted);
      if (wanted.X) add(cells);
    } else if (read.pixels() > kFar * count && count <= most) {
      run_entries(entries, cells_of(entries), wanted, true);
      if (wanted.X) add_far(entries);
    } else {
      for (const Entries& half : entries.halves()) run_part(half, wanted, add, add_far);
    }
  }

  // `far`: cells are those of cells_of().
  void run_entries(const Entries& entries, const CellBox& cells, const Wanted& wanted,
                   bool far = false) {
    const int64_t size = cells.channel<A>();
    const bool moved = wanted.moved;
    A* const out = wanted.X ? sums_.get() : nullptr;
    if (moved || wanted.W) {
      const StridedView<const T>& X = call_.inputs.X;
      far ? fill_far(X, conv_, tile_.image, item_.channels, at_, entries, table_.get())
          : fill_cells(X, conv_, tile_.image, item_.channels, cells, window_.get(), table_.get());
    }
    if (out != nullptr) std::fill_n(out, call_.plan.channels() * size, A{});
    far ? at_.number(entries, 2) : at_.locate(entries, cells.box, 4);
    // All taps of some pixels, whose cells stay in the L1 cache.
    for (int64_t p = entries.first; p < entries.last; p += kStrip) {
      const int64_t pixels = std::min(kStrip, entries.last - p), taps = item_.taps.count();
      for (int64_t k = entries.first_tap; k < entries.last_tap; ++k) {
        const int64_t entry = k * at_.stride() + p;
        A* const moves = moved ? moved_.get() + 2 * k * pixels_ + p : nullptr;
        A* const masks = moved ? moved_.get() + (2 * taps + k) * pixels_ + p : nullptr;
        run_cells(CellStrip<A>{at_.index() + entry, pixels, at_.values() + entry,
                               at_.points() + entry, at_.plane(), rows_.get() + k * row_ + p,
                               tap_row(), call_.plan.channels(), table_.get(), out, size,
                               static_cast<int32_t>(cells.outside<A>()), moves, masks, pixels_},
                  wanted.W);
      }
    }
  }

  void finish(const Wanted& wanted) {
    if (wanted.moved) {
      call_.positions.write(conv_, tile_, item_.offset_group, item_.taps, moved_.get());
    }
    if (!wanted.W) return;
    GroupWeights::for_each(conv_, item_.channels, [&](const GroupPart& part) {
      const int64_t taps = item_.taps.count(), count = part.row(taps);
      dot_products<A>(part.outputs.count(), count, gradient_of(part), {rows_of(part), row_},
                      pixels_, {W_.get() + part.begin * taps, count});
    });
  }

  const CellCall<T>& call_;
  const ConvShape& conv_;
  const A* weights_;
  int64_t row_;  // of planes of a tile
  CellItem item_{};
  Tile tile_{};
  Range outputs_{0, 0};
  int64_t pixels_ = 0;
  Taps<T> at_;
  Rows<const A> from_{nullptr, 0};  // the gradient of Y
  Buffer<A> gradient_, rows_, moved_, window_, table_, sums_, W_;
  Tile held_{-1, 0, 0, 0, 0};  // of the gradient of Y
  Range held_outputs_{0, 0};
};

}  // namespace myops::deform::MYOPS_ISA
