// The columns A and A' (see taps.h) of a strip of pixels for one block of taps and channels. They
// are written to a buffer that fits the L1 cache and multiplied immediately, so the whole column
// matrix is never stored.
#pragma once

#include "image.h"

namespace myops::deform::MYOPS_ISA {

enum class Column : uint8_t { Value, Change };  // A, A'

// The inputs that samples depend on; the directions are absent outside the double backward.
template <class T>
struct Inputs {
  StridedView<const T> X, X_direction;
  Positions<T> positions;

  // Whether A' can differ from 0.
  bool changes() const { return X_direction || positions.shifted(); }
  // How many windows share the window memory.
  int64_t windows() const { return X_direction ? 2 : 1; }
};

// sum_j w_j X_j for one vector of channels. Each weight fills a whole vector.
template <class V, class A>
MYOPS_INLINE V blended(const A* const (&corners)[4], const CornerWeights<Vector<A>>& w, int64_t c) {
  constexpr int64_t kSide = sizeof(V) / sizeof(A);
  V value = group_of<kSide, 0, A>(w.at[0]) * load_as<V>(corners[0] + c);
  for (int j = 1; j < 4; ++j) {
    value = fma(group_of<kSide, 0, A>(w.at[j]), load_as<V>(corners[j] + c), value);
  }
  return value;
}
template <bool kAdd, class V, class A, class S>
MYOPS_INLINE void blend(const A* const (&corners)[4], const CornerWeights<Vector<A>>& w, int64_t c,
                        S* out) {
  V value = blended<V>(corners, w, c);
  if constexpr (kAdd) value += load_as<V>(out + c);
  if constexpr (std::is_same_v<S, A>) {
    store(out + c, value);
  } else {
    store_rounded(out + c, value);
  }
}

// kCount: the number of channels if it is a compile-time constant, or 0.
template <bool kAdd, int64_t kCount, class A, class S>
MYOPS_INLINE void blend_channels(const A* const (&corners)[4],
                                 const CornerWeights<Vector<A>>& weights, int64_t count, S* out) {
  constexpr int64_t L = kLanes<A>;
  const int64_t channels = kCount ? kCount : count;
  int64_t c = 0;
  for (; c + L <= channels; c += L) blend<kAdd, Vector<A>>(corners, weights, c, out);
  if constexpr (L > 2 * kQuad<A> && kCount % L != 0) {
    if (c + L / 2 <= channels) {
      blend<kAdd, Lanes<A, L / 2>>(corners, weights, c, out);
      c += L / 2;
    }
  }
  for (; c < channels; c += kQuad<A>) blend<kAdd, Lanes<A, kQuad<A>>>(corners, weights, c, out);
}

// Samples `part` of the entries of `taps` with values() or changes(). Row p - first of `out` (rows
// are `row` elements apart) has the samples of pixel p, tap by tap; see row_of().
template <bool kAdd, int64_t kCount, class T, class A, class S>
void sample_count(const Taps<T>& taps, const A* weights, WindowView<const A> window,
                  int64_t channels, const Entries& part, int64_t first, int64_t row, S* out) {
  const int64_t count = kCount ? kCount : pixel_of<A>(channels), plane = taps.plane();
  for (int64_t k = part.first_tap; k < part.last_tap; ++k) {
    const int32_t* index = taps.index() + k * taps.stride();
    const A* w = weights + k * taps.stride();
    S* to = out + (part.first - first) * row + k * channels;
    for (int64_t p = part.first; p < part.last; ++p, to += row) {
      const CornerWeights<Vector<A>> at = vector_weights_at(w + p, plane);
      if (index[p] == Taps<T>::kBorder) {  // of X that is read in place
        const CopiedCorners<A> corners(window, taps, k * taps.stride() + p, channels);
        blend_channels<kAdd, kCount>(corners.at, at, count, to);
        continue;
      }
      if (index[p] < 0) {  // samples 0, which a mask that is not finite turns into NaN
        const S missed(w[p] * 0);
        if constexpr (kAdd) {
          for (int64_t c = 0; c < channels; ++c) to[c] += missed;
        } else {
          for (int64_t c = 0; c < channels; ++c) to[c] = missed;
        }
        continue;
      }
      const Corners<const A> corners(window, index[p]);
      if constexpr (kAdd) {
        if (channels != count) {  // superfluous elements would be added to the next tap
          using Quad = Lanes<A, kQuad<A>>;
          for (int64_t c = 0; c < channels; c += kQuad<A>) {
            const Quad value = blended<Quad>(corners.at, at, c);
            const int64_t some = std::min(kQuad<A>, channels - c);
            for (int64_t i = 0; i < some; ++i) to[c + i] += value[i];
          }
          continue;
        }
      }
      blend_channels<kAdd, kCount>(corners.at, at, count, to);
    }
  }
}
// The same, without adding, for pixels of up to kQuads times 16 bytes, whose number is a constant.
template <int64_t kQuads, class T, class A, class... More>
void sample_quads(int64_t quads, const Taps<T>& taps, const A* weights, const More&... more) {
  if constexpr (kQuads == 0) {
    sample_count<false, 0>(taps, weights, more...);
  } else if (quads == kQuads) {
    sample_count<false, kQuads * kQuad<A>>(taps, weights, more...);
  } else {
    sample_quads<kQuads - 1>(quads, taps, weights, more...);
  }
}

template <bool kAdd, class T, class A, class... More>
void sample_entries(const Taps<T>& taps, const A* weights, const WindowView<const A>& window,
                    int64_t channels, const More&... more) {
  if constexpr (!kAdd) {  // (the double backward takes longer elsewhere)
    return sample_quads<8>(pixel_of<A>(channels) / kQuad<A>, taps, weights, window, channels,
                           more...);
  }
  sample_count<kAdd, 0>(taps, weights, window, channels, more...);
}

template <class T>
class Columns {
 public:
  using A = Accumulate<T>;
  using S = Sample<T>;

  // `size`: elements of a strip, whose pixels are a multiple of `rows`.
  Columns(const KernelContext& context, const ConvShape& conv, const Inputs<T>& inputs,
          const Blocking& blocking, int64_t pixels, int64_t size, int64_t rows = kBlockRows)
      : blocking_(blocking),
        capacity_(window_size<A>(conv, kWindow<A> / inputs.windows())),
        taps_(context, conv, inputs.positions, blocking_.taps, pixels, false),
        X_(context, conv, inputs.X, capacity_),
        direction_(context, conv, inputs.X_direction, capacity_),
        can_read_in_place_(!inputs.changes() && !conv.depthwise() && X_.in_place()),
        strip_(std::min(blocking_.strip_pixels<A>(size, rows), pixels)),
        size_(row_of<A>(blocking_.taps, blocking_.channels) * strip_ + kPanel<S>),
        buffer_(context, size_) {
    buffer_.zero(size_);
  }

  int64_t strip() const { return strip_; }  // pixels that are sampled at a time

  void place(const ConvShape& conv, const Tile& tile, int64_t offset_group, const Range& taps) {
    image_ = tile.image;
    all_ = {0, taps.count(), 0, tile.pixels()};
    taps_.place(conv, tile, offset_group, taps);
    box_ = taps_.extent();
    held_ = {0, 0};
    in_place_ = can_read_in_place_ && kFewSamples * box_.pixels() > all_.taps() * all_.pixels();
    if (!in_place_) return;
    window_ = X_.whole(tile.image);
    held_ = {0, conv.channels};
    // Vectors of the last channels reach behind a pixel.
    const int64_t safe = X_.rest(tile.image) - conv.channels - kQuad<A>;
    taps_.locate_in_place(all_, window_.row, window_.pixel, safe - window_.row - window_.pixel);
  }

  // Calls body(pixels) for parts of the tile whose samples of `block` are available; `end` is the
  // end of the channels that follow. If possible one window serves the whole tile and as many
  // channels as fit; otherwise smaller parts have windows of their own.
  template <class Body>
  void in_parts(const Range& block, int64_t end, const Body& body) {
    if (in_place_) return body(Range{0, all_.last});
    const int64_t most = capacity_ / std::max<int64_t>(box_.pixels(), 1) / kQuad<A> * kQuad<A>;
    if (most < block.count()) return halve(block, {0, all_.last}, body);
    if (block.first < held_.first || block.last > held_.last) {
      // A block at the border of a weight group can be shorter than others, so it may fit although
      // a whole block does not.
      const int64_t whole = most / blocking_.channels * blocking_.channels;
      hold({block.first, std::min(block.first + std::max(whole, block.count()), end)}, all_, box_);
    }
    body(Range{0, all_.last});
  }

  // Row p - pixels.first holds the samples of pixel p for each tap, as many as channels; rows are
  // row_of() apart. The last row is readable up to kPanel elements past its end.
  const S* sample(Column column, const Range& block, const Range& pixels) {
    const Entries strip{0, all_.last_tap, pixels.first, pixels.last};
    if (held()) {
      sample_from(column, block, strip, strip);
    } else {
      sample_parts(column, block, strip, strip);
      held_ = {0, 0};
    }
    fill_factor(strip.taps() * block.count(), row_of<A>(strip.taps(), block.count()),
                pixels.count());
    return buffer_.get();
  }

  // Whether the windows contain what the current part samples.
  bool held() const { return held_.count() > 0; }
  // The window of X from channel `first` on.
  WindowView<const A> window(int64_t first) const {
    return {behind(window_, first), window_.row, window_.pixel};
  }

  const Taps<T>& taps() const { return taps_; }

 private:
  // With fewer samples for each pixel of a window, reading X itself takes less time than copying.
  static constexpr int64_t kFewSamples = 4;

  // The address of a channel in a window that begins with the first stored channel. If all samples
  // are outside the image there is no window, and nothing is read.
  const A* behind(const WindowView<const A>& view, int64_t channel) const {
    return view.data == nullptr ? nullptr : view.data + (channel - held_.first);
  }

  void hold(const Range& channels, const Entries& entries, const Box& box) {
    held_ = channels;
    if (box.pixels() > 0) {
      if (X_) window_ = X_.read(image_, channels, box);
      if (direction_) direction_window_ = direction_.read(image_, channels, box);
    }
    taps_.locate(entries, box, pixel_of<A>(channels.count()));
  }

  // The window of entries with a cell for each.
  void hold_cells(const Range& channels, const Entries& entries) {
    held_ = channels;
    if (X_) window_ = X_.read_cells(image_, channels, taps_, entries);
    if (direction_) direction_window_ = direction_.read_cells(image_, channels, taps_, entries);
    taps_.number(entries, pixel_of<A>(channels.count()));
  }

  // Samples parts of a strip that fit a window each.
  void sample_parts(Column column, const Range& block, const Entries& strip, const Entries& part) {
    const Box box = taps_.extent(part);
    const int64_t count = part.taps() * part.pixels();
    const int64_t most = capacity_ / pixel_of<A>(block.count());
    const bool near = box.pixels() <= kFarApart * count;
    if (near ? box.pixels() <= most : 4 * count <= most) {
      near ? hold(block, part, box) : hold_cells(block, part);
      return sample_from(column, block, strip, part);
    }
    for (const Entries& half : part.halves()) sample_parts(column, block, strip, half);
  }

  template <class Body>
  void halve(const Range& block, const Range& pixels, const Body& body) {
    const Entries entries{0, all_.last_tap, pixels.first, pixels.last};
    const Box box = taps_.extent(entries);
    held_ = {0, 0};
    if (box.pixels() * pixel_of<A>(block.count()) <= capacity_) {
      hold(block, entries, box);
      body(pixels);
      held_ = {0, 0};
    } else if (pixels.count() <= strip()) {
      body(pixels);
    } else {
      const int64_t middle = pixels.first + round_up(pixels.count() / 2, strip());
      halve(block, {pixels.first, middle}, body);
      halve(block, {middle, pixels.last}, body);
    }
  }

  // The rest of a product's last factor is 0, as that of the weights: 0 times anything else could
  // be NaN.
  void fill_factor(int64_t used, int64_t row, int64_t pixels) {
    if (used % kFactorSamples<T> == 0) return;
    S* to = buffer_.get() + used;
    for (int64_t p = 0; p < pixels; ++p) to[p * row] = S{};
  }

  void sample_from(Column column, const Range& block, const Entries& strip, const Entries& part) {
    if constexpr (!std::is_same_v<S, A>) {  // the forward pass alone
      interpolate<false>(window_, taps_.values(), block, strip, part);
    } else if (column == Column::Value) {
      interpolate<false>(window_, taps_.values(), block, strip, part);
    } else if (taps_.shifted()) {
      interpolate<false>(window_, taps_.changes(), block, strip, part);
      if (direction_) interpolate<true>(direction_window_, taps_.values(), block, strip, part);
    } else {
      interpolate<false>(direction_window_, taps_.values(), block, strip, part);
    }
  }

  template <bool kAdd>
  void interpolate(const WindowView<const A>& view, const A* weights, const Range& block,
                   const Entries& strip, const Entries& part) {
    const WindowView<const A> own{behind(view, block.first), view.row, view.pixel};
    sample_entries<kAdd>(taps_, weights, own, block.count(), part, strip.first,
                         row_of<A>(strip.taps(), block.count()), buffer_.get());
  }

  Blocking blocking_;
  int64_t capacity_;
  int64_t image_ = 0;
  Entries all_{};
  Box box_{};
  Range held_{0, 0};  // channels in the windows of the tile; empty: there are none
  Taps<T> taps_;
  Source<T> X_, direction_;
  bool can_read_in_place_, in_place_ = false;
  WindowView<const A> window_, direction_window_;
  int64_t strip_, size_;
  Buffer<S> buffer_;
};

}  // namespace myops::deform::MYOPS_ISA
