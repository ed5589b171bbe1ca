// The gradients of X, offset and mask over one tile: T against the corners of every sample.
#pragma once

#include "columns.h"
#include "transport.h"

namespace myops::deform::MYOPS_ISA {

// Where the gradient of X is summed: channel c of pixel y * width + x is at
// data[c * channel + (y * width + x - first) * pixel], for pixels in [first, last).
template <class A>
struct Target {
  A* data = nullptr;  // null: not wanted
  int64_t channel = 0, pixel = 0, first = 0, last = 0;
};

// out[j] += sum over channels of values * corner j.
template <class A>
inline void add_products(const Corners<A>& corners, const A* values, int64_t channels, A* out) {
  Vector<A> sums[4] = {};
  int64_t c = 0;
  for (; c + kLanes<A> <= channels; c += kLanes<A>) {
    const Vector<A> value = load(values + c);
    for (int j = 0; j < 4; ++j) sums[j] = fma(value, load(corners.at[j] + c), sums[j]);
  }
  A totals[4];
  for (int j = 0; j < 4; ++j) totals[j] = sum<A>(sums[j]);
  for (; c < channels; ++c) {
    for (int j = 0; j < 4; ++j) totals[j] = fma(values[c], corners.at[j][c], totals[j]);
  }
  for (int j = 0; j < 4; ++j) out[j] += totals[j];
}

template <class A>
inline A inner(const Weights<A>& a, const A* b) {
  return a.at[0] * b[0] + a.at[1] * b[1] + a.at[2] * b[2] + a.at[3] * b[3];
}

// dL/dy, dL/dx and dL/dm of one sample from its sums F_j and H_j; see taps.h.
template <class A>
inline Point<A> position_gradient(const Point<A>& point, const A* F) {
  return {point.mask * inner(y_weights(point), F), point.mask * inner(x_weights(point), F),
          inner(value_weights(point), F)};
}
template <class A>
inline Point<A> shifted_gradient(const Point<A>& point, const Point<A>& shift, const A* H) {
  const A along_y = inner(y_weights(point), H), along_x = inner(x_weights(point), H);
  const A mixed = point.mask * (H[0] - H[1] - H[2] + H[3]);
  return {shift.mask * along_y + shift.x * mixed, shift.mask * along_x + shift.y * mixed,
          shift.y * along_y + shift.x * along_x};
}

// values[corner j][c] += weight_j * T[c] at the corners inside the image.
template <class A>
inline void scatter(const View<A>& view, const Cell& cell, const Weights<A>& weights,
                    const A* values, int64_t channels) {
  const int64_t first = view.index(cell);
  const int64_t place[4] = {first, first + view.pixel, first + view.row,
                            first + view.row + view.pixel};
  for (uint32_t j = 0; j < 4; ++j) {
    if (!(cell.inside >> j & 1)) continue;
    A* out = view.data + place[j];
    const A weight = weights.at[j];
    int64_t c = 0;
    for (; c + kLanes<A> <= channels; c += kLanes<A>) {
      store(out + c, fma(broadcast(weight), load(values + c), load(out + c)));
    }
    for (; c < channels; ++c) out[c] = fma(weight, values[c], out[c]);
  }
}

// Everything that one task needs; made once a task, used for tile after tile.
template <class T>
class TileGradient {
 public:
  using A = Accumulate<T>;

  // `direct` belongs to T' (W itself in the plain backward), `cross` to T (see taps.h).
  TileGradient(const KernelContext& context, const Problem& problem, const Inputs<T>& inputs,
               const Tensor& gradient, const Filters<T>& direct, const Filters<T>& cross,
               int64_t pixels, bool positions)
      : problem_(problem),
        taps_(context, inputs.positions, Blocking(problem).taps * pixels, true),
        gradient_(context, problem, gradient, pixels),
        direct_(context, problem, direct, pixels),
        cross_(context, problem, cross, pixels),
        X_(context, problem, positions ? inputs.X : Tensor()),
        direction_(context, problem, positions ? inputs.X_direction : Tensor()),
        window_(context, kWindow<A>) {}

  void place(const Tile& tile, int64_t offset_group, const Range& range) {
    tile_ = tile;
    range_ = range;
    taps_.place(problem_, tile, offset_group, range.first, range.last);
  }

  // Whether a sample of the tile has a corner in the target.
  bool reaches(const Target<A>& target) const {
    const Box box = reach(problem_, taps_.cells(), 0, entries());
    return box.pixels() > 0 && box.top * problem_.width < target.last &&
           (box.bottom - 1) * problem_.width + box.right > target.first;
  }

  // Adds the share of channels `block`. `sums` holds y, x and m planes of [tap][pixel]; null when
  // they are not wanted.
  void run(const Range& block, const Target<A>& target, A* sums) {
    const int64_t count = block.count();
    if (direct_) direct_.run(gradient_, tile_, range_, block);
    if (cross_) cross_.run(gradient_, tile_, range_, block);
    // In windows even where the target has the layout for sums in place: the order of the sums,
    // and so their rounding, then does not depend on the layout.
    const bool windows = target.data || (sums && (X_.needs_window() || direction_.needs_window()));
    const int64_t limit = windows ? kWindow<A> / count : INT64_MAX;
    in_windows(problem_, taps_.cells(), 0, entries(), limit,
               [&](const Box& box, int64_t begin, int64_t end) {
                 if (box.pixels() == 0) return;  // outside the image nothing has a gradient
                 if (sums) add_positions(block, box, begin, end, sums);
                 if (!target.data) return;
                 std::fill_n(window_.get(), box.pixels() * count, A{});
                 add_image({window_.get(), box.columns() * count, count, box.top, box.left}, count,
                           begin, end);
                 flush(box, count, target);
               });
  }

 private:
  int64_t entries() const { return range_.count() * tile_.pixels(); }

  // Calls body(entry, place of its row in T) for the entries that read X.
  template <class Body>
  void for_each_entry(int64_t count, int64_t begin, int64_t end, const Body& body) const {
    const int64_t pixels = tile_.pixels(), row = range_.count() * count;
    int64_t tap = begin / pixels, pixel = begin % pixels;
    for (int64_t entry = begin; entry < end; ++entry) {
      if (taps_.cells()[entry].inside) body(entry, pixel * row + tap * count);
      if (++pixel == pixels) {
        pixel = 0;
        ++tap;
      }
    }
  }

  void add_positions(const Range& block, const Box& box, int64_t begin, int64_t end, A* sums);

  void add_image(const View<A>& view, int64_t count, int64_t begin, int64_t end) const {
    for_each_entry(count, begin, end, [&](int64_t entry, int64_t at) {
      const Cell& cell = taps_.cells()[entry];
      if (direct_) scatter(view, cell, taps_.values()[entry], direct_.get() + at, count);
      if (cross_ && taps_.shifted()) {
        scatter(view, cell, taps_.changes()[entry], cross_.get() + at, count);
      }
    });
  }

  // Adds the window to the target, clipped to the target's pixels.
  void flush(const Box& box, int64_t count, const Target<A>& target) const {
    const A* from = window_.get();
    for (int64_t y = box.top; y < box.bottom; ++y, from += box.columns() * count) {
      const int64_t line = y * problem_.width + box.left;
      const int64_t begin = std::max(line, target.first) - line;
      const int64_t end = std::min(line + box.columns(), target.last) - line;
      if (begin >= end) continue;
      const A* window = from + begin * count;
      A* to = target.data + (line + begin - target.first) * target.pixel;
      if (target.channel == 1) {
        for (int64_t x = 0; x < end - begin; ++x) {
          for (int64_t c = 0; c < count; ++c) to[x * target.pixel + c] += window[x * count + c];
        }
        continue;
      }
      for (int64_t c = 0; c < count; ++c, to += target.channel) {
        for (int64_t x = 0; x < end - begin; ++x) to[x * target.pixel] += window[x * count + c];
      }
    }
  }

  const Problem& problem_;
  Tile tile_{};
  Range range_{0, 0};
  Taps<T> taps_;
  GradientTile<T> gradient_;
  Transport<T> direct_, cross_;
  Source<T> X_, direction_;
  Buffer<A> window_;
};

template <class T>
void TileGradient<T>::add_positions(const Range& block, const Box& box, int64_t begin, int64_t end,
                                    A* sums) {
  const int64_t count = block.count(), plane = entries();
  const View<const A> view = X_.view(tile_.image, block.first, block.last, box);
  const View<const A> other =
      direction_ ? direction_.view(tile_.image, block.first, block.last, box) : View<const A>{};
  for_each_entry(count, begin, end, [&](int64_t entry, int64_t at) {
    const Cell& cell = taps_.cells()[entry];
    const Point<A>& point = taps_.points()[entry];
    const Corners<A> corners(view, cell);
    A F[4] = {};
    if (direct_) add_products(corners, direct_.get() + at, count, F);
    if (direction_) add_products(Corners<A>(other, cell), cross_.get() + at, count, F);
    const Point<A> own = position_gradient(point, F);
    sums[entry] += own.y;
    sums[plane + entry] += own.x;
    sums[2 * plane + entry] += own.mask;
    if (!taps_.shifted()) return;
    A H[4] = {};
    add_products(corners, cross_.get() + at, count, H);
    const Point<A> moved = shifted_gradient(point, taps_.shifts()[entry], H);
    sums[entry] += moved.y;
    sums[plane + entry] += moved.x;
    sums[2 * plane + entry] += moved.mask;
  });
}

}  // namespace myops::deform::MYOPS_ISA
