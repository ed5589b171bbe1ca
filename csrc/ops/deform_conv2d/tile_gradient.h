// The gradients of X, offset and mask over one tile, from T and the corners of every sample.
#pragma once

#include "columns.h"
#include "held_image.h"
#include "sample_gradient.h"
#include "tap_strip.h"

namespace myops::deform::MYOPS_ISA {

// State and buffers of one task, reused for all its tiles.
template <class T>
class TileGradient {
 public:
  using A = Accumulate<T>;

  // `direct` makes T' (it is W in the plain backward), `cross` makes T (see taps.h). `samples`:
  // whether run() will have to return samples. `hold`: whether the channels of a task are one
  // block.
  TileGradient(const KernelContext& context, const ConvShape& conv, const Inputs<T>& inputs,
               const Tensor& gradient, const Filters<T>& direct, const Filters<T>& cross,
               int64_t pixels, bool positions, bool samples = false, bool hold = false)
      : conv_(conv),
        blocking_(Blocking::of_gradients<A>(conv)),
        strip_(std::min(strip_pixels(blocking_, gradient_outputs(conv, blocking_)), pixels)),
        ahead_(std::min(strip_pixels(blocking_, outputs_at_a_time(conv, blocking_)), pixels) /
               strip_ * strip_),
        capacity_(window_size<A>(conv, 2 * kWindow<A> / (inputs.windows() + 1))),
        hold_(hold && holding_pays<A>(conv, blocking_.channels)),
        taps_(context, conv, inputs.positions, blocking_.taps, pixels, true),
        gradient_(context, gradient, outputs_at_a_time(conv, blocking_), ahead_),
        direct_(context, conv, blocking_, direct, ahead_),
        cross_(context, conv, blocking_, cross, ahead_),
        X_(context, conv, positions || samples ? inputs.X : StridedView<const T>(), capacity_,
           hold_),
        direction_(context, conv, positions ? inputs.X_direction : StridedView<const T>(),
                   capacity_, hold_),
        held_(context),
        window_(context, capacity_ + kLanes<A>),
        sums_(context, 8 * (strip_ + kLanes<A>)),
        sampled_(context, samples ? strip_ * row() + kPanel<A> : 0) {
    sums_.zero(8 * (strip_ + kLanes<A>));
    if (samples) sampled_.zero(strip_ * row() + kPanel<A>);
  }

  void place(const Tile& tile, int64_t offset_group, const Range& range) {
    tile_ = tile;
    range_ = range;
    taps_.place(conv_, tile, offset_group, range);
  }

  // Whether any sample of the tile has a corner in the target.
  bool touches(const PixelSums<A>& target) const { return touches(target, taps_.extent()); }

  // Adds the contribution of channels `block`. `sums` holds a plane of pixels for y and x of every
  // tap, then one for m of every tap; null if these gradients are not requested. `take` receives
  // the samples of every strip, in the layout of Columns; it may be empty.
  using Take = std::function<void(const Range& strip, const A* sampled, const GradientStrip<T>&)>;
  void run(const Range& block, const PixelSums<A>& target, A* sums, const Take& take = nullptr) {
    take_ = &take;
    block_ = block;
    if (held_ && !held_.holds(target)) held_.write_back();
    target_ = held_ ? held_.sums() : target;
    positions_ = sums;
    made_ = {0, 0};
    direct_.select(range_, block);
    cross_.select(range_, block);
    run_part({0, tile_.pixels()});
  }
  // To be called behind the last run().
  void finish() { held_.write_back(); }

 private:
  // The part of a strip that is being summed: T, its window, and which of its entries are in the
  // window.
  struct WindowPart {
    Entries entries;
    int64_t strip;  // its first pixel
    WindowView<const A> X, direction;
    WindowView<A> out;
  };

  static int64_t strip_pixels(const Blocking& blocking, int64_t outputs) {
    const int64_t most = std::max(2 * kColumns<A> / outputs / kBlockRows * kBlockRows, kBlockRows);
    return std::min(blocking.strip_pixels<A>(kColumns<A>), most);
  }
  static int64_t gradient_outputs(const ConvShape& conv, const Blocking& blocking) {
    return conv.depthwise() ? blocking.channels : conv.group_outputs();
  }
  // The outputs of a product.
  static int64_t outputs_at_a_time(const ConvShape& conv, const Blocking& blocking) {
    return std::min(gradient_outputs(conv, blocking), kOutputs<A>);
  }
  Box inside(const Box& box) const {
    return {std::max<int64_t>(box.top, 0), std::min(box.bottom, conv_.height),
            std::max<int64_t>(box.left, 0), std::min(box.right, conv_.width)};
  }

  bool touches(const PixelSums<A>& target, const Box& extent) const {
    const Box box = inside(extent);
    return box.pixels() > 0 && box.top * conv_.width + box.left < target.last &&
           (box.bottom - 1) * conv_.width + box.right > target.first;
  }
  // Whether a strip contributes anything. Only a part of the image may be wanted.
  bool contributes(const Entries& strip) const {
    const bool all = target_.last - target_.first == conv_.height * conv_.width;
    return positions_ || *take_ || all || touches(target_, taps_.extent(strip));
  }

  // Uses one window for the whole tile if it fits, otherwise for halves of it.
  void run_part(const Range& pixels) {
    const Entries entries{0, range_.count(), pixels.first, pixels.last};
    const Box box = taps_.extent(entries);
    // Samples outside the image have no gradient, but are not always 0.
    if (box.pixels() == 0 && !*take_) return;
    const int64_t pixel = pixel_of<A>(block_.count());
    if (box.pixels() * pixel <= capacity_) {
      in_window(entries, box, [&](WindowPart part) {
        for (int64_t p = pixels.first; p < pixels.last; p += strip_) {
          part.strip = p;
          part.entries.first = p;
          part.entries.last = std::min(p + strip_, pixels.last);
          if (!contributes(part.entries)) continue;
          sample_gradient(part.entries);
          add(part);
          hand_over(part.entries);
        }
      });
    } else if (pixels.count() <= strip_) {
      if (!contributes(entries)) return;
      sample_gradient(entries);
      add_parts(entries, pixels.first);
      hand_over(entries);
    } else {
      const int64_t middle = pixels.first + round_up(pixels.count() / 2, strip_);
      run_part({pixels.first, middle});
      run_part({middle, pixels.last});
    }
  }

  // Entries of a strip in windows that fit, of boxes or of cells.
  void add_parts(const Entries& entries, int64_t strip) {
    const Box box = taps_.extent(entries);
    if (box.pixels() == 0 && !*take_) return;
    const int64_t count = entries.taps() * entries.pixels();
    const int64_t most = capacity_ / pixel_of<A>(block_.count());
    const bool near = box.pixels() <= kFarApart * count;
    const auto body = [&](WindowPart part) {
      part.strip = strip;
      add(part);
    };
    if (near ? box.pixels() <= most : 4 * count <= most) {
      return near ? in_window(entries, box, body) : in_cells(entries, body);
    }
    for (const Entries& half : entries.halves()) add_parts(half, strip);
  }

  template <class Body>
  void in_window(const Entries& entries, const Box& box, const Body& body) {
    const int64_t pixel = pixel_of<A>(block_.count());
    WindowPart part{entries, entries.first, {}, {}, {window_.get(), box.columns() * pixel, pixel}};
    hold_narrow();
    if ((positions_ || *take_) && X_) part.X = X_.read(tile_.image, block_, box);
    if (positions_ && direction_) part.direction = direction_.read(tile_.image, block_, box);
    taps_.locate(entries, box, pixel);
    if (target_.data) std::fill_n(window_.get(), box.pixels() * pixel, A{});
    body(part);
    if (target_.data) flush(box, part.out);
  }

  // Of narrow images, lines are shorter than vectors of pixels.
  void hold_narrow() {
    if (conv_.width < kLanes<A>) hold();
  }
  void hold() {
    if (!hold_ || !target_.data || target_.channel == 1) return;
    held_.take(target_, block_.count());
    target_ = held_.sums();
  }

  // The same in a window with a cell for each entry.
  template <class Body>
  void in_cells(const Entries& entries, const Body& body) {
    const int64_t pixel = pixel_of<A>(block_.count());
    const int64_t row = 2 * entries.taps() * entries.pixels() * pixel;
    hold();
    WindowPart part{entries, entries.first, {}, {}, {window_.get(), row, pixel}};
    if ((positions_ || *take_) && X_) {
      part.X = X_.read_cells(tile_.image, block_, taps_, entries);
    }
    if (positions_ && direction_) {
      part.direction = direction_.read_cells(tile_.image, block_, taps_, entries);
    }
    taps_.number(entries, pixel);
    if (target_.data) std::fill_n(window_.get(), 2 * row, A{});
    body(part);
    if (target_.data) flush_cells(entries, part.out);
  }

  int64_t row() const { return row_of<A>(blocking_.taps, blocking_.channels); }
  void hand_over(const Entries& strip) const {
    if (*take_) (*take_)({strip.first, strip.last}, sampled_.get(), gradient_);
  }

  // Makes T of a strip, if it is not made already: with many outputs strips are short, and would
  // read part of each cache line of the gradient of Y, and all weights.
  void sample_gradient(const Entries& strip) {
    if (strip.first >= made_.first && strip.last <= made_.last) return;
    made_ = {strip.first, std::min(strip.first + ahead_, tile_.pixels())};
    if (direct_) direct_.run(gradient_, tile_, made_);
    if (cross_) cross_.run(gradient_, tile_, made_);
  }

  void add(const WindowPart& part);
  void add_positions(const Entries& entries, int64_t k);
  void flush(const Box& box, const WindowView<A>& window) const;
  void flush_cells(const Entries& entries, const WindowView<A>& window) const;

  const ConvShape& conv_;
  Blocking blocking_;
  int64_t strip_;  // pixels that are added at a time: the order of the sums
  int64_t ahead_;  // pixels of which T is made at a time: whole strips
  int64_t capacity_;
  bool hold_;
  Tile tile_{};
  Range range_{0, 0}, block_{0, 0};
  Range made_{0, 0};  // the pixels of the rows of T
  PixelSums<A> target_;
  A* positions_ = nullptr;
  Taps<T> taps_;
  GradientStrip<T> gradient_;
  SampleGradient<T> direct_, cross_;
  Source<T> X_, direction_;
  HeldSums<A> held_;
  Buffer<A> window_, sums_, sampled_;  // sums_: F_j and H_j of a strip's pixels for one tap
  const Take* take_ = nullptr;
};

template <class T>
void TileGradient<T>::add(const WindowPart& part) {
  for (int64_t k = part.entries.first_tap; k < part.entries.last_tap; ++k) {
    const Entries& entries = part.entries;
    const int64_t entry = k * taps_.stride() + entries.first, count = block_.count();
    TapStrip<A> strip{taps_.index() + entry,
                      entries.pixels(),
                      taps_.values() + entry,
                      taps_.plane(),
                      nullptr,
                      0,
                      part.X,
                      part.out,
                      positions_ ? sums_.get() : nullptr};
    const auto add_from = [&](const SampleGradient<T>& values) {
      strip.row = values.row();
      strip.values = values.get() + (entries.first - made_.first) * strip.row + k * count;
      add_tap(strip, count);
    };
    if (direct_) {
      add_from(direct_);
    } else if (positions_) {
      std::fill_n(sums_.get(), 8 * entries.pixels(), A{});
    }
    if (taps_.shifted()) {  // then there is `cross`
      strip.weights = taps_.changes() + entry;
      if (positions_) strip.sums = sums_.get() + 4;
      add_from(cross_);
    }
    if (positions_ && direction_) {
      strip.X = part.direction;
      strip.out = {};
      strip.sums = sums_.get();
      strip.more = true;
      add_from(cross_);
    }
    if (positions_) add_positions(part.entries, k);
  }
  if (*take_) {
    const int64_t count = block_.count();
    sample_entries<false>(taps_, taps_.values(), part.X, count, part.entries, part.strip,
                          row_of<A>(range_.count(), count), sampled_.get());
  }
}

// Gradients from the sums of one tap's samples, a vector of pixels at a time. Samples outside the
// image have no gradient, whatever their mask is.
template <class T>
void TileGradient<T>::add_positions(const Entries& entries, int64_t k) {
  constexpr int64_t L = kLanes<A>;
  using V = Vector<A>;
  using Mask = Lanes<std::conditional_t<sizeof(A) == 4, int32_t, int64_t>, L>;
  const int64_t plane = tile_.pixels();
  const A* from = sums_.get();
  A* const to = positions_ + 2 * k * plane;
  A* const to_mask = positions_ + (2 * range_.count() + k) * plane;
  for (int64_t p = entries.first; p < entries.last; p += L, from += 8 * L) {
    const int64_t entry = k * taps_.stride() + p;
    V F[4], H[4];
    load_sums(from, F);
    const Point<V> point = taps_.template point<V>(entry);
    Point<V> sum = position_gradient(point, F);
    if (taps_.shifted()) {
      load_sums(from + 4, H);
      const Point<V> moved = shifted_gradient(point, taps_.template shift<V>(entry), H);
      sum = {sum.y + moved.y, sum.x + moved.x, sum.mask + moved.mask};
    }
    const auto missed = __builtin_convertvector(load_as<Index<A>>(taps_.index() + entry) < 0, Mask);
    const int64_t count = std::min(L, entries.last - p);
    add_lanes(missed ? V{} : sum.y, count, to + p);
    add_lanes(missed ? V{} : sum.x, count, to + plane + p);
    add_lanes(missed ? V{} : sum.mask, count, to_mask + p);
  }
}

// Adds the window to the target, clipped to the image and the target's pixels.
template <class T>
void TileGradient<T>::flush(const Box& box, const WindowView<A>& window) const {
  const Box clipped = inside(box);
  const int64_t count = block_.count();
  for (int64_t y = clipped.top; y < clipped.bottom; ++y) {
    const int64_t line = y * conv_.width;
    const int64_t begin = std::max(line + clipped.left, target_.first);
    const int64_t end = std::min(line + clipped.right, target_.last);
    if (begin >= end) continue;
    const A* from =
        window.data + (y - box.top) * window.row + (begin - line - box.left) * window.pixel;
    A* to = target_.data + (begin - target_.first) * target_.pixel;
    if (target_.channel != 1 && target_.pixel == 1) {
      pixels_to_planes<true>(from, window.pixel, end - begin, count, to, target_.channel);
      continue;
    }
    if (held_) {
      add_to(from, 1, (end - begin) * window.pixel, to);
      continue;
    }
    for (int64_t x = begin; x < end; ++x, from += window.pixel, to += target_.pixel) {
      prefetch_channels(to + kPrefetchPixels * target_.pixel, count);
      add_to(from, target_.channel, count, to);
    }
  }
}

// The same of a window with a cell for each entry.
template <class T>
void TileGradient<T>::flush_cells(const Entries& entries, const WindowView<A>& window) const {
  const int64_t pixel = window.pixel, count = held_ ? pixel : block_.count();
  const PixelSums<A>& target = target_;
  const int64_t width = conv_.width;
  const auto add_corner = [&](int64_t place, int64_t corner, int64_t y, int64_t x) {
    const int64_t to = y * width + x;
    if (to < target.first || to >= target.last) return;
    const A* const from = window.data + (place / 2 + corner % 2) * pixel + corner / 2 * window.row;
    add_to(from, target.channel, count, target.data + (to - target.first) * target.pixel);
  };
  const auto add_cell = [&](int64_t place, int64_t y, int64_t x) MYOPS_INLINED {
    if (!held_) {
      for (int64_t corner = 0; corner < 4; ++corner) {
        add_corner(place, corner, y + corner / 2, x + corner % 2);
      }
      return;
    }
    const A* const from = window.data + place / 2 * pixel;
    A* const to = target.data + (y * width + x) * pixel;
    copy_pair<true>(from, pixel, to);
    copy_pair<true>(from + window.row, pixel, to + width * pixel);
  };
  each_far_cell(taps_, entries, {0, conv_.height}, width, add_cell, add_corner);
}

}  // namespace myops::deform::MYOPS_ISA
