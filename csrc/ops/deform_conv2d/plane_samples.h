// Samples of a few channels as planes of pixels: vectors run over pixels, because vectors of
// channels would be mostly empty. The same numbers as those of columns.h, bit for bit. A sample
// reads two pairs of pixels of a window, each at once.
#pragma once

#include "plane_window.h"

namespace myops::deform::MYOPS_ISA {

inline constexpr int64_t kMostPlanes = 8;  // channels that are sampled at a time

// Where the plane of a channel's first tap is, and how many planes further that of the next tap.
struct PlanePlace {
  int64_t first, step;
};

template <class T>
class PlaneSamples {
 public:
  using A = Accumulate<T>;

  // For tiles of up to `pixels` and blocks of up to `taps`.
  PlaneSamples(const KernelContext& context, const ConvShape& conv, const StridedView<const T>& X,
               const Positions<T>& positions, int64_t taps, int64_t pixels)
      : conv_(conv),
        lines_(context, conv, positions, taps, pixels),
        base_row_(pixels + kLanes<A>),
        bases_(context, 2 * base_row_),
        window_(context, conv, X) {}

  void place(const Tile& tile, int64_t offset_group, const Range& taps);

  // Chooses the samples that follow: of some channels of the offset group; `places` says where
  // their planes are.
  void begin(const Range& channels, const PlanePlace* places) {
    channels_ = channels;
    places_ = places;
    held_ = read({0, taps_, 0, tile_.pixels()});
  }
  // The samples of some pixels, each plane `row` elements behind the previous one. Up to kLanes
  // elements behind those of the last pixel are written.
  void sample(const Range& pixels, A* out, int64_t row) {
    const Entries all{0, taps_, pixels.first, pixels.last};
    if (held_) return sample_entries(all, pixels.first, out, row);
    in_parts(all, pixels.first, out, row);
  }

 private:
  using V = Vector<A>;
  using I = Index<A>;
  using Bits = Lanes<std::conditional_t<sizeof(A) == 4, int32_t, int64_t>, kLanes<A>>;
  static constexpr int64_t kRowsAhead = 4;  // of offsets and masks, prefetched

  // Calls body(row, first, count, pixel) for each line of memory in pixels [first, last).
  template <class Body>
  MYOPS_INLINE void for_each_row(const Entries& entries, const Body& body) const {
    const int64_t length = even_ ? tile_.pixels() : tile_.columns;
    for (int64_t p = entries.first; p < entries.last;) {
      const int64_t row = p / length, first = p % length;
      const int64_t count = std::min(length - first, entries.last - p);
      body(row, first, count, p);
      p += count;
    }
  }
  // The positions and masks of a tap in a line of memory.
  struct Line {
    const PositionView<T>& view;
    int64_t tap, row, first, count;
    const A *base_y, *base_x;
    A tap_y, tap_x;
    const T *offset_y, *offset_x, *masks;  // null: not contiguous, or no mask

    // `p`: the pixel of the tile with which the line begins.
    Line(const PlaneSamples& of, int64_t k, int64_t line, int64_t begin, int64_t pixels, int64_t p)
        : view(of.view_),
          tap(k),
          row(line),
          first(begin),
          count(pixels),
          base_y(of.bases_.get() + p),
          base_x(base_y + of.base_row_),
          tap_y(of.tap_y_[k]),
          tap_x(of.tap_x_[k]),
          offset_y(view.offset.contiguous(2 * k, line, begin)),
          offset_x(view.offset.contiguous(2 * k + 1, line, begin)),
          masks(view.mask ? view.mask.contiguous(k, line, begin) : nullptr) {}

    MYOPS_INLINE V read(const LineView<T>& from, const T* at, int64_t channel, int64_t i) const {
      if (at != nullptr && count - i >= kLanes<A>) return load_wide<A>(at + i);
      return last(from, channel, i);
    }
    MYOPS_NOINLINE V last(const LineView<T>& from, int64_t channel, int64_t i) const {
      return from.at(channel, row, first + i, count - i);
    }
    MYOPS_INLINE V y(int64_t i) const {
      return load(base_y + i) + tap_y + read(view.offset, offset_y, 2 * tap, i);
    }
    MYOPS_INLINE V x(int64_t i) const {
      return load(base_x + i) + tap_x + read(view.offset, offset_x, 2 * tap + 1, i);
    }
    MYOPS_INLINE V mask(int64_t i) const {
      return view.mask ? read(view.mask, masks, tap, i) : V{} + 1;
    }
  };
  Box extent(const Entries& entries) const;
  bool read(const Entries& entries);
  void in_parts(const Entries& entries, int64_t first, A* out, int64_t row);
  void sample_entries(const Entries& entries, int64_t first, A* out, int64_t row) const;
  static constexpr int64_t kTogether = 512 / sizeof(A);
  struct Cells {
    int32_t at[kTogether];
    A weights[4][kTogether];
  };
  void find_cells(const Line& line, int64_t first, int64_t last, Cells& cells) const;
  void sample_line(const Line& line, int64_t tap, A* out, int64_t row) const;

  const ConvShape& conv_;
  PositionLines<T> lines_;
  int64_t base_row_;
  Buffer<A> bases_;  // y and x of a pixel's first tap
  PlaneWindow<T> window_;
  Tile tile_{-1, 0, 0, 0, 0};
  PositionView<T> view_;
  bool even_ = false;  // the tile is one line of memory
  int64_t taps_ = 0;
  A tap_y_[kTaps], tap_x_[kTaps];
  Range channels_{0, 0};
  const PlanePlace* places_ = nullptr;
  bool held_ = false;  // the window has all samples of the tile
};

template <class T>
void PlaneSamples<T>::place(const Tile& tile, int64_t offset_group, const Range& taps) {
  view_ = lines_.place(conv_, tile, offset_group, taps);
  even_ = view_.even_rows(tile);
  taps_ = taps.count();
  for (int64_t k = 0; k < taps_; ++k) {
    const int64_t tap = taps.first + k;
    tap_y_[k] = static_cast<A>(tap / conv_.kernel_width * conv_.dilation_y);
    tap_x_[k] = static_cast<A>(tap % conv_.kernel_width * conv_.dilation_x);
  }
  if (tile == tile_) return;
  tile_ = tile;
  A *y = bases_.get(), *x = y + base_row_;
  for (int64_t row = 0; row < tile.rows; ++row) {
    for (int64_t c = 0; c < tile.columns; ++c) {
      *y++ = static_cast<A>((tile.top + row) * conv_.stride_y - conv_.pad_top);
      *x++ = static_cast<A>((tile.left + c) * conv_.stride_x - conv_.pad_left);
    }
  }
}

// The pixels that samples read; those of positions outside X are included as if they were at its
// border. NaN, also of the lanes behind a row, fails all comparisons.
template <class T>
Box PlaneSamples<T>::extent(const Entries& entries) const {
  constexpr A kFar = std::numeric_limits<A>::infinity();
  V top = V{} + kFar, bottom = V{} - kFar, left = top, right = bottom;
  for_each_row(entries, [&](int64_t row, int64_t first, int64_t count, int64_t p) {
    for (int64_t k = entries.first_tap; k < entries.last_tap; ++k) {
      if (!even_ && row + kRowsAhead < tile_.rows) view_.prefetch(k, row + kRowsAhead, count);
      const Line line(*this, k, row, first, count, p);
      for (int64_t i = 0; i < count; i += kLanes<A>) {
        const V y = line.y(i), x = line.x(i);
        top = y < top ? y : top;
        bottom = y > bottom ? y : bottom;
        left = x < left ? x : left;
        right = x > right ? x : right;
      }
    }
  });
  A low[2] = {kFar, kFar}, high[2] = {-kFar, -kFar};
  for (int64_t i = 0; i < kLanes<A>; ++i) {
    low[0] = std::min(low[0], top[i]);
    low[1] = std::min(low[1], left[i]);
    high[0] = std::max(high[0], bottom[i]);
    high[1] = std::max(high[1], right[i]);
  }
  const auto height = static_cast<A>(conv_.height), width = static_cast<A>(conv_.width);
  if (!(low[0] < height && high[0] > -1 && low[1] < width && high[1] > -1)) return {0, 0, 0, 0};
  const auto first = [](A value) {
    return static_cast<int64_t>(std::floor(std::max(value, A{-1})));
  };
  const auto last = [](A value, int64_t length) {
    return static_cast<int64_t>(std::floor(std::min(value, static_cast<A>(length - 1)))) + 2;
  };
  return {first(low[0]), last(high[0], conv_.height), first(low[1]), last(high[1], conv_.width)};
}

// Fills the window with what some entries read. False: it does not fit, or they are so far apart
// that parts of them are faster.
template <class T>
bool PlaneSamples<T>::read(const Entries& entries) {
  const Box box = extent(entries);
  const bool near = box.pixels() <= 8 * entries.taps() * entries.pixels();
  if (!near || !window_.fits(box, channels_.count())) return false;
  window_.fill(tile_.image, channels_, box);
  return true;
}

template <class T>
void PlaneSamples<T>::in_parts(const Entries& entries, int64_t first, A* out, int64_t row) {
  if (read(entries)) return sample_entries(entries, first, out, row);
  Entries one = entries, other = entries;
  if (entries.taps() > 1) {
    one.last_tap = other.first_tap = entries.first_tap + entries.taps() / 2;
  } else {
    one.last = other.first = entries.first + entries.pixels() / 2;
  }
  in_parts(one, first, out, row);
  in_parts(other, first, out, row);
}

template <class T>
void PlaneSamples<T>::sample_entries(const Entries& entries, int64_t first, A* out,
                                     int64_t row) const {
  for_each_row(entries, [&](int64_t y, int64_t begin, int64_t count, int64_t p) {
    for (int64_t k = entries.first_tap; k < entries.last_tap; ++k) {
      const Line line(*this, k, y, begin, count, p);
      sample_line(line, k, out + p - first, row);
    }
  });
}

// One tap. First the cells and weights of some pixels, then their samples: in one loop, a core
// could not begin with a vector before it has almost finished the previous one.
template <class T>
void PlaneSamples<T>::sample_line(const Line& line, int64_t tap, A* out, int64_t row) const {
  constexpr int64_t L = kLanes<A>;
  const int64_t channels = channels_.count(), columns = window_.box().columns();
  for (int64_t first = 0; first < line.count; first += kTogether) {
    const int64_t last = std::min(first + kTogether, line.count);
    Cells cells;
    find_cells(line, first, last, cells);
    for (int64_t c = 0; c < channels; ++c) {
      const A* const window = window_.plane(c);
      A* const to = out + (places_[c].first + tap * places_[c].step) * row + first;
      for (int64_t i = 0; i < last - first; i += L) {
        const int32_t* const at = cells.at + i;
        V corners[4];
        load_pairs(window, at, corners[0], corners[1]);
        load_pairs(window + columns, at, corners[2], corners[3]);
        V sample = load(cells.weights[0] + i) * corners[0];
#pragma GCC unroll 3
        for (int j = 1; j < 4; ++j) sample = fma(load(cells.weights[j] + i), corners[j], sample);
        store(to + i, sample);
      }
    }
  }
}

// Compares before the conversion to integers, which is undefined for numbers out of range; NaN
// fails all comparisons. A position outside of X reads the zeros behind the window.
template <class T>
MYOPS_INLINE void PlaneSamples<T>::find_cells(const Line& line, int64_t first, int64_t last,
                                              Cells& cells) const {
  constexpr int64_t L = kLanes<A>;
  const auto height = static_cast<A>(conv_.height), width = static_cast<A>(conv_.width);
  const auto top = static_cast<A>(window_.box().top), left = static_cast<A>(window_.box().left);
  // Windows have fewer elements than a float has integers.
  const auto step = static_cast<A>(window_.box().columns()),
             pixels = static_cast<A>(window_.box().pixels());
  const V outside = broadcast(pixels);
  for (int64_t i = first; i < last; i += L) {
    const V y = line.y(i), x = line.x(i), mask = line.mask(i);
    const auto hit = (y > -1) & (y < height) & (x > -1) & (x < width);
    const V in_y = hit ? y : V{}, in_x = hit ? x : V{};
    const V floor_y = floor<A>(in_y), floor_x = floor<A>(in_x);
    const V cell = (floor_y - top) * step + (floor_x - left);
    int32_t* const at = cells.at + (i - first);
    store(at, __builtin_convertvector((V)(hit ? cell : outside), I));
    const CornerWeights<V> w = value_weights(Point<V>{in_y - floor_y, in_x - floor_x, mask});
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) store(cells.weights[j] + (i - first), w.at[j] * mask);
  }
}

}  // namespace myops::deform::MYOPS_ISA
