// All gradients of a convolution with few channels in each offset group, in one pass: vectors run
// over the pixels of a tile (see cell_table.h).
//
// Items (cell_plan.h) are computed in parallel, each into a table of the gradient of X and a part
// of the gradient of W, which are added to the results in the order of the items (in_order.h). An
// item whose samples are too far apart for a table has a cell for each; if there are too many of
// them, it is computed when its turn comes, in parts. 16-bit gradients of X are summed in float32,
// for a band of rows at a time; then all gradients but that of X are computed with the first band.
#pragma once

#include "cell_item.h"
#include "in_order.h"

namespace myops::deform::MYOPS_ISA {

template <class T>
class CellGradient {
 public:
  using A = Accumulate<T>;

  struct Outputs {  // not present: not needed
    Tensor X, W, offset, mask;
  };

  static bool supports(const ConvShape& conv, const Inputs<T>& inputs) {
    return !inputs.changes() && CellPlan<T>::supports(conv);
  }

  CellGradient(const KernelContext& context, const ConvShape& conv, const Inputs<T>& inputs,
               const Tensor& gradient, const Tensor& W, const Outputs& outputs)
      : call_{context,
              conv,
              inputs,
              StridedView<const T>(gradient),
              StridedView<const T>(W),
              StridedView<T>(outputs.X),
              StridedView<T>(outputs.W),
              {StridedView<T>(outputs.offset), StridedView<T>(outputs.mask)},
              CellPlan<T>(conv)},
        context_(context),
        conv_(conv) {}

  void run() const;

 private:
  // An item that has been computed.
  struct Part {
    std::unique_ptr<ItemGradient<T>> work;
    CellBox cells;
    typename ItemGradient<T>::Wanted wanted;
    bool far, deferred;
  };
  // Units and rows of the gradient of X whose sums are made at a time; `data` has those of 16-bit
  // types, others are summed in the tensor.
  struct Band {
    Range units, rows;
    A* data;
  };
  // Where the gradient of X of a unit is summed: the first row of a band.
  struct BandRows {
    A* data;
    int64_t channel, row, pixel;
  };

  void run_items(const Band& band, const A* weights, A* totals) const;
  BandRows rows_of(const Band& band, int64_t unit) const;
  template <class Body>
  void for_each_weight(int64_t group, const Body& body) const;
  void pack_weights(A* to) const;
  void write_weights(const A* totals) const;
  void write_rows(const Band& band) const;

  CellCall<T> call_;
  const KernelContext& context_;
  const ConvShape& conv_;
};

template <class T>
void CellGradient<T>::run() const {
  const bool moves = call_.moves();
  const CellPlan<T>& plan = call_.plan;
  if (call_.X_out || moves) {
    context_.report("cell_tables",
                    !moves        ? "X"
                    : call_.X_out ? "X, offset and mask"
                                  : "offset and mask",
                    "few channels in an offset group: vectors run over pixels");
  }
  if (call_.W_out) context_.report("cell_tables", "W", "the samples are made already");
  if (call_.X_out) clear(context_, call_.X_out);
  if (call_.W_out) clear(context_, call_.W_out);
  if (plan.units() * plan.unit_items() == 0) return;
  const int64_t size = GroupWeights::size(conv_) * conv_.offset_groups;
  const Buffer<A> weights(context_, call_.X_out || moves ? size : 0);
  if (call_.X_out || moves) pack_weights(weights.get());
  const Buffer<A> totals(context_, call_.W_out ? size : 0);
  if (call_.W_out) totals.zero(size);
  const bool empty = conv_.height * conv_.width == 0;  // has no rows that bands could be made of
  if (std::is_same_v<T, A> || !call_.X_out || empty) {
    run_items({{0, plan.units()}, {0, conv_.height}, nullptr}, weights.get(), totals.get());
  } else {
    const int64_t rows = plan.rows_together(), together = plan.units_from(0).count();
    const Buffer<A> sums(context_, together * plan.channels() * rows * conv_.width);
    for (Range units = plan.units_from(0); units.first < units.last;
         units = plan.units_from(units.last)) {
      for (int64_t y = 0; y < conv_.height; y += rows) {
        const Band band{units, {y, std::min(y + rows, conv_.height)}, sums.get()};
        sums.zero(units.count() * plan.channels() * band.rows.count() * conv_.width);
        run_items(band, weights.get(), totals.get());
        write_rows(band);
      }
    }
  }
  if (call_.W_out) write_weights(totals.get());
}

// `weights`, `totals`: W and its gradient, of all offset groups.
template <class T>
void CellGradient<T>::run_items(const Band& band, const A* weights, A* totals) const {
  const CellPlan<T>& plan = call_.plan;
  const bool first = band.rows.first == 0, has_X = static_cast<bool>(call_.X_out);
  const bool moved = first && call_.moves(), weighs = first && call_.W_out;
  const Buffer<A> line(context_, has_X ? line_size<A>(plan.table_cells(), plan.channels()) : 0);
  Pool<ItemGradient<T>> pool;
  const auto touches = [&](const Box& box) {
    return has_X && box.pixels() > 0 && box.top < band.rows.last && box.bottom > band.rows.first;
  };
  const auto make = [&](int64_t index) {
    Part part{pool.take([&] { return ItemGradient<T>(call_, weights); }), {}, {}, false, false};
    const Box box = part.work->place(plan.item(band.units, index));
    part.cells = CellBox(box);
    part.wanted = {touches(box), weighs, moved};
    const bool any = part.wanted.X || weighs || moved;
    part.far = part.work->apart(box);
    part.deferred = any && !part.far && part.cells.box.pixels() > plan.table_cells();
    if (any && !part.deferred) part.work->run(part.cells, part.wanted, part.far);
    return part;
  };
  const auto add = [&](Part part) {
    ItemGradient<T>& work = *part.work;
    const BandRows to = rows_of(band, work.item().unit);
    const auto add_sums = [&](const CellBox& cells) {
      add_table(cells, work.sums(), plan.channels(), band.rows, conv_.width, to.data, to.channel,
                to.row, to.pixel, line.get());
    };
    const auto add_apart = [&](const Entries& entries) {
      add_far(work.taps(), entries, work.sums(), plan.channels(), band.rows, conv_.width, to.data,
              to.channel, to.row, to.pixel);
    };
    if (part.deferred) {
      work.run_parts(part.wanted, add_sums, add_apart);
    } else if (part.wanted.X) {
      part.far ? add_apart(work.entries()) : add_sums(part.cells);
    }
    if (weighs) {
      const CellItem& item = work.item();
      add_to(work.W(), 1, work.W_size(),
             totals + GroupWeights::begin(conv_, item.offset_group, item.taps));
    }
    pool.give_back(std::move(part.work));
  };
  const int64_t items = band.units.count() * plan.unit_items(), each = plan.items_together(items);
  const auto make_some = [&](int64_t index) {
    std::vector<Part> some;
    for (int64_t i = index * each; i < std::min((index + 1) * each, items); ++i) {
      some.push_back(make(i));
    }
    return some;
  };
  const auto add_some = [&](std::vector<Part> some) {
    for (Part& part : some) add(std::move(part));
  };
  make_and_add(context_, panels(items, each), make_some, add_some);
}

template <class T>
typename CellGradient<T>::BandRows CellGradient<T>::rows_of(const Band& band, int64_t unit) const {
  const int64_t channels = call_.plan.channels();
  if constexpr (std::is_same_v<T, A>) {
    const StridedView<T>& X = call_.X_out;
    const int64_t first = unit % conv_.offset_groups * channels;
    return {X ? X.at(unit / conv_.offset_groups, first, band.rows.first, 0) : nullptr, X.step[1],
            X.step[2], X.step[3]};
  } else {
    const int64_t plane = band.rows.count() * conv_.width;
    return {band.data + (unit - band.units.first) * channels * plane, plane, conv_.width, 1};
  }
}

// Calls body(o, c, taps, place) for each output, channel of a weight group and block of taps of an
// offset group: their weights follow one another from `place` on.
template <class T>
template <class Body>
void CellGradient<T>::for_each_weight(int64_t group, const Body& body) const {
  const int64_t channels = call_.plan.channels();
  for (int64_t first = 0; first < conv_.taps; first += call_.plan.taps()) {
    const Range taps{first, std::min(first + call_.plan.taps(), conv_.taps)};
    int64_t place = GroupWeights::begin(conv_, group, taps);
    GroupWeights::for_each(conv_, {group * channels, (group + 1) * channels},
                           [&](const GroupPart& part) {
                             for (int64_t o = part.outputs.first; o < part.outputs.last; ++o) {
                               for (int64_t c = part.channels.first; c < part.channels.last; ++c) {
                                 body(o, c % conv_.group_channels(), taps, place);
                                 place += taps.count();
                               }
                             }
                           });
  }
}

template <class T>
void CellGradient<T>::pack_weights(A* to) const {
  const StridedView<const T>& W = call_.W;
  context_.parallel_for(conv_.offset_groups, 1, [&](int64_t group, int64_t) {
    for_each_weight(group, [&](int64_t o, int64_t c, const Range& taps, int64_t place) {
      const T* const from = W.at(o, c, 0, 0);
      for (int64_t k = taps.first; k < taps.last; ++k, ++place) {
        to[place] = static_cast<A>(
            from[k / conv_.kernel_width * W.step[2] + k % conv_.kernel_width * W.step[3]]);
      }
    });
  });
}

template <class T>
void CellGradient<T>::write_weights(const A* totals) const {
  const StridedView<T>& W = call_.W_out;
  context_.parallel_for(conv_.offset_groups, 1, [&](int64_t group, int64_t) {
    for_each_weight(group, [&](int64_t o, int64_t c, const Range& taps, int64_t place) {
      T* const to = W.at(o, c, 0, 0);
      for (int64_t k = taps.first; k < taps.last; ++k, ++place) {
        to[k / conv_.kernel_width * W.step[2] + k % conv_.kernel_width * W.step[3]] =
            static_cast<T>(totals[place]);
      }
    });
  });
}

// Rounds the sums of a band.
template <class T>
void CellGradient<T>::write_rows(const Band& band) const {
  const StridedView<T>& X = call_.X_out;
  const int64_t channels = call_.plan.channels(), plane = band.rows.count() * conv_.width;
  context_.parallel_for(band.units.count(), 1, [&](int64_t index, int64_t) {
    const int64_t unit = band.units.first + index, first = unit % conv_.offset_groups * channels;
    const A* from = band.data + index * channels * plane;
    T* const to = X.at(unit / conv_.offset_groups, first, band.rows.first, 0);
    if (X.channels_last()) {
      transpose_copy(from, plane, to, X.step[3], channels, plane);
      return;
    }
    for (int64_t c = 0; c < channels; ++c) narrow(from + c * plane, plane, to + c * X.step[1]);
  });
}

}  // namespace myops::deform::MYOPS_ISA
