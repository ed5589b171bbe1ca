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

// The sums over channels of values * corner j.
template <class V, class A>
MYOPS_INLINE Lanes<A, 4> products(const A* const (&corners)[4], const A* values, int64_t channels) {
  V totals[4] = {};
  for (int64_t c = 0; c < channels; c += static_cast<int64_t>(sizeof(V) / sizeof(A))) {
    const V value = load_as<V>(values + c);
    for (int j = 0; j < 4; ++j) totals[j] = fma(value, load_as<V>(corners[j] + c), totals[j]);
  }
  return sums<A>(totals);
}

// corner j += weight_j * values.
template <class V, class A>
MYOPS_INLINE void scatter(A* const (&corners)[4], const Weights<A>& weights, const A* values,
                          int64_t channels) {
  for (int64_t c = 0; c < channels; c += static_cast<int64_t>(sizeof(V) / sizeof(A))) {
    const V value = load_as<V>(values + c);
    for (int j = 0; j < 4; ++j) {
      store(corners[j] + c, fma(weights.at[j] - V{}, value, load_as<V>(corners[j] + c)));
    }
  }
}

template <class V>
inline V inner(const Weights<V>& a, const V (&b)[4]) {
  return a.at[0] * b[0] + a.at[1] * b[1] + a.at[2] * b[2] + a.at[3] * b[3];
}

// dL/dy, dL/dx and dL/dm of samples from their sums F_j and H_j; see taps.h.
template <class V>
inline Point<V> position_gradient(const Point<V>& point, const V (&F)[4]) {
  return {point.mask * inner(y_weights(point), F), point.mask * inner(x_weights(point), F),
          inner(value_weights(point), F)};
}
template <class V>
inline Point<V> shifted_gradient(const Point<V>& point, const Point<V>& shift, const V (&H)[4]) {
  const V along_y = inner(y_weights(point), H), along_x = inner(x_weights(point), H);
  const V mixed = point.mask * (H[0] - H[1] - H[2] + H[3]);
  return {shift.mask * along_y + shift.x * mixed, shift.mask * along_x + shift.y * mixed,
          shift.y * along_y + shift.x * along_x};
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
        blocking_(Blocking::of_gradients<A>(problem)),
        strip_(std::min(strip_pixels(problem, blocking_), pixels)),
        capacity_(window_size<A>(problem, 2 * kWindow<A> / (inputs.windows() + 1))),
        taps_(context, inputs.positions, blocking_.taps, pixels, true),
        gradient_(context, gradient, gradient_outputs(problem, blocking_), strip_),
        direct_(context, problem, blocking_, direct, strip_),
        cross_(context, problem, blocking_, cross, strip_),
        X_(context, problem, positions ? inputs.X : Field<const T>(), capacity_),
        direction_(context, problem, positions ? inputs.X_direction : Field<const T>(), capacity_),
        window_(context, capacity_),
        sums_(context, 8 * (strip_ + 4)) {}

  void place(const Tile& tile, int64_t offset_group, const Range& range) {
    tile_ = tile;
    range_ = range;
    taps_.place(problem_, tile, offset_group, range);
  }

  // Whether a sample of the tile has a corner in the target.
  bool reaches(const Target<A>& target) const {
    const Box box = inside(taps_.reach());
    return box.pixels() > 0 && box.top * problem_.width + box.left < target.last &&
           (box.bottom - 1) * problem_.width + box.right > target.first;
  }

  // Adds the share of channels `block`. `sums` holds a plane of pixels for y and x of every tap,
  // then one for m of every tap; null when they are not wanted.
  void run(const Range& block, const Target<A>& target, A* sums) {
    block_ = block;
    target_ = target;
    positions_ = sums;
    direct_.select(range_, block);
    cross_.select(range_, block);
    run_part({0, tile_.pixels()});
  }

 private:
  // What is summed for a strip: T and its window, and which of its entries are in the window.
  struct Part {
    Entries entries;
    int64_t strip;  // the first pixel of the rows of T
    View<const A> X, direction;
    View<A> out;
  };

  static int64_t strip_pixels(const Problem& problem, const Blocking& blocking) {
    const int64_t outputs = gradient_outputs(problem, blocking);
    const int64_t most = std::max(2 * kColumns<A> / outputs / kBlockRows * kBlockRows, kBlockRows);
    return std::min(blocking.strip_pixels<A>(kColumns<A>), most);
  }
  static int64_t gradient_outputs(const Problem& problem, const Blocking& blocking) {
    return problem.depthwise() ? blocking.channels : problem.group_outputs();
  }
  Box inside(const Box& box) const {
    return {std::max<int64_t>(box.top, 0), std::min(box.bottom, problem_.height),
            std::max<int64_t>(box.left, 0), std::min(box.right, problem_.width)};
  }

  // One window for as many pixels as possible: of the whole tile, or else of halves of it.
  void run_part(const Range& pixels) {
    const Entries entries{0, range_.count(), pixels.first, pixels.last};
    const Box box = taps_.reach(entries);
    if (box.pixels() == 0) return;  // outside the image nothing has a gradient
    const int64_t pixel = pixel_of<A>(block_.count());
    if (box.pixels() * pixel <= capacity_) {
      in_window(entries, box, [&](Part part) {
        for (int64_t p = pixels.first; p < pixels.last; p += strip_) {
          part.strip = p;
          part.entries.first = p;
          part.entries.last = std::min(p + strip_, pixels.last);
          transport(part.entries);
          add(part);
        }
      });
    } else if (pixels.count() <= strip_) {
      transport(entries);
      in_windows(taps_, entries, capacity_ / pixel, [&](const Entries& some, const Box& around) {
        if (around.pixels() == 0) return;
        in_window(some, around, [&](Part part) {
          part.strip = pixels.first;
          add(part);
        });
      });
    } else {
      const int64_t middle = pixels.first + round_up(pixels.count() / 2, strip_);
      run_part({pixels.first, middle});
      run_part({middle, pixels.last});
    }
  }

  template <class Body>
  void in_window(const Entries& entries, const Box& box, const Body& body) {
    const int64_t pixel = pixel_of<A>(block_.count());
    Part part{entries, entries.first, {}, {}, {window_.get(), box.columns() * pixel, pixel}};
    if (positions_ && X_) part.X = X_.read(tile_.image, block_, box);
    if (positions_ && direction_) part.direction = direction_.read(tile_.image, block_, box);
    taps_.locate(entries, box, pixel);
    if (target_.data) std::fill_n(window_.get(), box.pixels() * pixel, A{});
    body(part);
    if (target_.data) flush(box, part.out);
  }

  void transport(const Entries& strip) {
    const Range pixels{strip.first, strip.last};
    if (direct_) direct_.run(gradient_, tile_, pixels);
    if (cross_) cross_.run(gradient_, tile_, pixels);
  }

  void add(const Part& part) {
    const int64_t count = pixel_of<A>(block_.count());
    if (count % kLanes<A> == 0) return add_entries<Vector<A>>(part, count);
    if constexpr (kLanes<A> > 2 * kQuad<A>) {
      if (count % (kLanes<A> / 2) == 0) return add_entries<Lanes<A, kLanes<A> / 2>>(part, count);
    }
    add_entries<Lanes<A, kQuad<A>>>(part, count);
  }

  template <class V>
  void add_entries(const Part& part, int64_t count);
  void add_positions(const Entries& entries, int64_t k);
  void flush(const Box& box, const View<A>& window) const;

  const Problem& problem_;
  Blocking blocking_;
  int64_t strip_, capacity_;
  Tile tile_{};
  Range range_{0, 0}, block_{0, 0};
  Target<A> target_;
  A* positions_ = nullptr;
  Taps<T> taps_;
  GradientStrip<T> gradient_;
  Transport<T> direct_, cross_;
  Source<T> X_, direction_;
  Buffer<A> window_, sums_;  // sums_: F_j and H_j of a strip's pixels for one tap
};

template <class T>
template <class V>
void TileGradient<T>::add_entries(const Part& part, int64_t count) {
  const int64_t row = range_.count() * count;
  const bool shifted = taps_.shifted();
  for (int64_t k = part.entries.first_tap; k < part.entries.last_tap; ++k) {
    const int64_t begin = (part.entries.first - part.strip) * row + k * count;
    const A *direct = direct_.get() + begin, *cross = cross_.get() + begin;
    A* sums = sums_.get();
    for (int64_t p = part.entries.first; p < part.entries.last;
         ++p, direct += row, cross += row, sums += 8) {
      const int64_t entry = k * taps_.stride() + p;
      const int32_t place = taps_.index()[entry];
      if (place < 0) continue;
      if (positions_) {
        const Corners<const A> X(part.X, place);
        Lanes<A, 4> F{};
        if (direct_) F = products<V>(X.at, direct, count);
        if (direction_) F += products<V>(Corners<const A>(part.direction, place).at, cross, count);
        store(sums, F);
        if (shifted) store(sums + 4, products<V>(X.at, cross, count));
      }
      if (target_.data) {
        const Corners<A> out(part.out, place);
        if (direct_)
          scatter<V>(out.at, weights_at(taps_.values() + entry, taps_.plane()), direct, count);
        if (cross_ && shifted) {
          scatter<V>(out.at, weights_at(taps_.changes() + entry, taps_.plane()), cross, count);
        }
      }
    }
    if (positions_) add_positions(part.entries, k);
  }
}

// From the sums of one tap's samples, four pixels at a time. Samples that miss have no gradient,
// whatever their mask is.
template <class T>
void TileGradient<T>::add_positions(const Entries& entries, int64_t k) {
  using Four = Lanes<A, 4>;
  const int64_t plane = tile_.pixels();
  const A* from = sums_.get();
  for (int64_t p = entries.first; p < entries.last; p += 4, from += 32) {
    const int64_t entry = k * taps_.stride() + p;
    Four F[4], H[4];
    for (int i = 0; i < 4; ++i) F[i] = load_as<Four>(from + 8 * i);
    transpose<A, 4>(F);
    const Point<Four> point = taps_.template point<Four>(entry);
    Point<Four> sum = position_gradient(point, F);
    if (taps_.shifted()) {
      for (int i = 0; i < 4; ++i) H[i] = load_as<Four>(from + 8 * i + 4);
      transpose<A, 4>(H);
      const Point<Four> moved = shifted_gradient(point, taps_.template shift<Four>(entry), H);
      sum = {sum.y + moved.y, sum.x + moved.x, sum.mask + moved.mask};
    }
    A* to = positions_ + 2 * k * plane + p;
    A* to_mask = positions_ + (2 * range_.count() + k) * plane + p;
    const auto place = load_as<Lanes<int32_t, 4>>(taps_.index() + entry);
    const int64_t count = std::min<int64_t>(4, entries.last - p);
    for (int64_t i = 0; i < count; ++i) {
      if (place[i] < 0) continue;
      to[i] += sum.y[i];
      to[plane + i] += sum.x[i];
      to_mask[i] += sum.mask[i];
    }
  }
}

// Adds the window to the target, clipped to the image and the target's pixels.
template <class T>
void TileGradient<T>::flush(const Box& box, const View<A>& window) const {
  const Box clipped = inside(box);
  const int64_t count = block_.count();
  for (int64_t y = clipped.top; y < clipped.bottom; ++y) {
    const int64_t line = y * problem_.width;
    const int64_t begin = std::max(line + clipped.left, target_.first);
    const int64_t end = std::min(line + clipped.right, target_.last);
    if (begin >= end) continue;
    const A* from =
        window.data + (y - box.top) * window.row + (begin - line - box.left) * window.pixel;
    A* to = target_.data + (begin - target_.first) * target_.pixel;
    if (target_.channel != 1 && target_.pixel == 1) {
      transpose_copy<true>(from, window.pixel, to, target_.channel, end - begin, count);
      continue;
    }
    for (int64_t x = begin; x < end; ++x, from += window.pixel, to += target_.pixel) {
      add_to(from, target_.channel, count, to);
    }
  }
}

}  // namespace myops::deform::MYOPS_ISA
