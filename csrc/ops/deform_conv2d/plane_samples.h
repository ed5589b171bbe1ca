// Samples of a few channels as planes of pixels: vectors run over pixels, because vectors of
// channels would be mostly empty. The same numbers as those of columns.h, bit for bit. A sample
// reads two pairs of pixels of a window, each at once.
#pragma once

#include "plane_window.h"

namespace myops::deform::MYOPS_ISA {

inline constexpr int64_t kMostPlanes = 20;  // channels that are sampled at a time

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
        window_(context, conv, X,
                !gathers_pay() && kernel_enabled("deform_conv2d.channels_together")) {
    bases_.zero(2 * base_row_);
  }

  void place(const Tile& tile, int64_t offset_group, const Range& taps);

  // Chooses the samples that follow: of some channels of the offset group; `places` says where
  // their planes are.
  void begin(const Range& channels, const PlanePlace* places) {
    channels_ = channels;
    places_ = places;
    const Entries all{0, taps_, 0, tile_.pixels()};
    // To find the box takes longer than to copy a small image whole.
    const Box image = window_.image();
    const bool small = image.pixels() * channels.count() <= all.taps() * all.pixels();
    held_ = small && read(image);
    if (held_) return;
    const Box box = extent(all);
    held_ = near(box, all) && read(box);
  }
  // The samples of some pixels, each plane `row` elements behind the previous one. Up to kLanes
  // elements behind those of the last pixel are written.
  void sample(const Range& pixels, A* out, int64_t row) {
    const Entries all{0, taps_, pixels.first, pixels.last};
    if (held_) return sample_entries<false>(all, pixels.first, out, row);
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
  // Whether the pixels of a box are not many more than its entries read.
  static bool near(const Box& box, const Entries& entries) {
    return box.pixels() <= kFarApart * entries.taps() * entries.pixels();
  }
  // Fills the window, if the box fits it.
  bool read(const Box& box) {
    if (!window_.fits(box, channels_.count())) return false;
    window_.fill(tile_.image, channels_, box);
    return true;
  }
  void in_parts(const Entries& entries, int64_t first, A* out, int64_t row);
  template <bool kFar>  // without a window
  void sample_entries(const Entries& entries, int64_t first, A* out, int64_t row) const;
  static constexpr int64_t kTogether = 512 / sizeof(A);
  static constexpr A kOutside = -2;  // a row and column that are outside of X, as those behind them
  using Weights = A[4][kTogether];
  template <class Put>
  void find_cells(const Line& line, int64_t first, int64_t last, Weights& weights,
                  const Put& put) const;
  void sample_far(const Line& line, int64_t tap, A* out, int64_t row) const;
  // Of one channel.
  template <class LoadCorners>
  static MYOPS_INLINE void blend(const Weights& weights, int64_t count,
                                 const LoadCorners& load_corners, A* to) {
    for (int64_t i = 0; i < count; i += kLanes<A>) {
      V corners[4];
      load_corners(i, corners);
      V sample = load(weights[0] + i) * corners[0];
#pragma GCC unroll 3
      for (int j = 1; j < 4; ++j) sample = fma(load(weights[j] + i), corners[j], sample);
      store(to + i, sample);
    }
  }
  // Where samples of a tap and a channel go.
  A* place(int64_t channel, int64_t tap, int64_t row, A* out) const {
    return out + (places_[channel].first + tap * places_[channel].step) * row;
  }
  template <int64_t kPixel, class To>
  static void blend_together(const A* plane, int64_t columns, const int32_t* at,
                             const Weights& weights, int64_t count, int64_t channels, const To& to);
  template <bool kGathers>
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
  const bool gathers_ = gathers_pay();
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
      // Hardware does not prefetch the beginning of a line, and of a long one, none across pages.
      const bool more = even_ && k + 1 < entries.last_tap;
      const T* const ahead_y = more ? view_.offset.contiguous(2 * k + 2, row, first) : nullptr;
      const T* const ahead_x = more ? view_.offset.contiguous(2 * k + 3, row, first) : nullptr;
      const T* const mask = even_ ? line.masks : nullptr;
      for (int64_t i = 0; i < count; i += kLanes<A>) {
        if (ahead_y) __builtin_prefetch(ahead_y + i), __builtin_prefetch(ahead_x + i);
        if (mask) __builtin_prefetch(mask + i);
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

template <class T>
void PlaneSamples<T>::in_parts(const Entries& entries, int64_t first, A* out, int64_t row) {
  const Box box = extent(entries);
  if (!near(box, entries)) return sample_entries<true>(entries, first, out, row);
  if (read(box)) return sample_entries<false>(entries, first, out, row);
  for (const Entries& half : entries.halves()) in_parts(half, first, out, row);
}

template <class T>
template <bool kFar>
void PlaneSamples<T>::sample_entries(const Entries& entries, int64_t first, A* out,
                                     int64_t row) const {
  for_each_row(entries, [&](int64_t y, int64_t begin, int64_t count, int64_t p) {
    for (int64_t k = entries.first_tap; k < entries.last_tap; ++k) {
      const Line line(*this, k, y, begin, count, p);
      A* const to = out + p - first;
      if constexpr (kFar) {
        sample_far(line, k, to, row);
      } else {
        gathers_ ? sample_line<kGathersPairs<A>>(line, k, to, row)
                 : sample_line<false>(line, k, to, row);
      }
    }
  });
}

// One tap. First the cells and weights of some pixels, then their samples: in one loop, a core
// could not begin with a vector before it has almost finished the previous one.
template <class T>
template <bool kGathers>
void PlaneSamples<T>::sample_line(const Line& line, int64_t tap, A* out, int64_t row) const {
  const int64_t columns = window_.box().columns();
  const auto top = static_cast<A>(window_.box().top), left = static_cast<A>(window_.box().left);
  // Windows have fewer elements than a float has integers.
  const auto step = static_cast<A>(columns);
  const V outside = broadcast(static_cast<A>(window_.box().pixels()));
  for (int64_t first = 0; first < line.count; first += kTogether) {
    const int64_t last = std::min(first + kTogether, line.count);
    int32_t at[kTogether];
    Weights weights;
    find_cells(line, first, last, weights, [&](int64_t i, const auto& hit, V y, V x) {
      const V cell = (y - top) * step + (x - left);
      store(at + i, __builtin_convertvector((V)(hit ? cell : outside), I));
    });
    window_.each_plane(channels_.count(), [&](const A* plane, int64_t c, int64_t count,
                                              auto pixel) {
      const auto to = [&](int64_t channel) { return place(c + channel, tap, row, out + first); };
      if constexpr (pixel > 1) {
        return blend_together<pixel>(plane, columns, at, weights, last - first, count, to);
      }
      const auto load_corners = [&](int64_t i, V(&corners)[4]) MYOPS_INLINED {
        for (int y = 0; y < 2; ++y) {
          const A* const pairs = plane + y * columns;
          V &left_one = corners[2 * y], &right_one = corners[2 * y + 1];
          kGathers ? gather_pairs(pairs, at + i, left_one, right_one)
                   : load_pairs(pairs, at + i, left_one, right_one);
        }
      };
      blend(weights, last - first, load_corners, to(0));
    });
  }
}

// Of the channels of a plane whose pixels have kPixel elements.
template <class T>
template <int64_t kPixel, class To>
MYOPS_INLINE void PlaneSamples<T>::blend_together(const A* plane, int64_t columns,
                                                  const int32_t* at, const Weights& weights,
                                                  int64_t count, int64_t channels, const To& to) {
  constexpr int64_t kPair = 2 * kPixel;
  A* results[kPixel];
  for (int64_t c = 0; c < kPixel; ++c) results[c] = to(std::min(c, channels - 1));
  for (int64_t i = 0; i < count; i += kLanes<A>) {
    V rows[2][kPair];
    for (int y = 0; y < 2; ++y) {
#pragma GCC unroll 8
      for (int64_t k = 0; k < kPair; ++k) {
        rows[y][k] = load_groups_at<kPair>(plane + y * columns * kPixel, at + i + k, kPixel);
      }
      transpose_groups<kPair, A>(rows[y]);
    }
#pragma GCC unroll 4
    for (int64_t c = 0; c < kPixel; ++c) {
      if (c == channels) break;
      V sample = load(weights[0] + i) * rows[0][c];
      sample = fma(load(weights[1] + i), rows[0][kPixel + c], sample);
      sample = fma(load(weights[2] + i), rows[1][c], sample);
      sample = fma(load(weights[3] + i), rows[1][kPixel + c], sample);
      store(results[c] + i, sample);
    }
  }
}

// The same of pixels that are far apart, from X itself.
template <class T>
void PlaneSamples<T>::sample_far(const Line& line, int64_t tap, A* out, int64_t row) const {
  for (int64_t first = 0; first < line.count; first += kTogether) {
    const int64_t last = std::min(first + kTogether, line.count);
    int32_t rows[kTogether], columns[kTogether];
    Weights weights, cells;
    for (A* const cell : cells) {  // what is not read below
      std::fill(cell + (last - first), cell + round_up(last - first, kLanes<A>), A{});
    }
    find_cells(line, first, last, weights, [&](int64_t i, const auto& hit, V y, V x) {
      const V none = broadcast(A{kOutside});
      store(rows + i, __builtin_convertvector((V)(hit ? y : none), I));
      store(columns + i, __builtin_convertvector((V)(hit ? x : none), I));
    });
    int64_t at[kTogether];
    window_.find_cells(last - first, rows, columns, at);
    window_.each_plane(channels_.count(), [&](const A*, int64_t c, int64_t count, auto pixel) {
      const auto to = [&](int64_t channel) { return place(c + channel, tap, row, out + first); };
      const int64_t channel = channels_.first + c;
      if constexpr (pixel > 1) {  // in a window with a cell for each
        constexpr int64_t kRow = 2 * kTogether;
        A copied[2 * kRow * pixel];
        int32_t cells[kTogether];
        for (int32_t i = 0; i < kTogether; ++i)
          cells[i] = 2 * std::min<int32_t>(i, last - first - 1);
        window_.template copy_cells<pixel>(tile_.image, channel, count, last - first, rows, columns,
                                           at, kRow * pixel, copied);
        return blend_together<pixel>(copied, kRow, cells, weights, last - first, count, to);
      }
      window_.read_cells(tile_.image, channel, last - first, rows, columns, at, cells);
      const auto load_corners = [&](int64_t i, V(&corners)[4]) MYOPS_INLINED {
        for (int j = 0; j < 4; ++j) corners[j] = load(cells[j] + i);
      };
      blend(weights, last - first, load_corners, to(0));
    });
  }
}

// Compares before the conversion to integers, which is undefined for numbers out of range; NaN
// fails all comparisons. A position outside of X reads zeros. put(i, hit, y, x): the cells of some
// pixels, and whether their positions are inside.
template <class T>
template <class Put>
MYOPS_INLINE void PlaneSamples<T>::find_cells(const Line& line, int64_t first, int64_t last,
                                              Weights& weights, const Put& put) const {
  constexpr int64_t L = kLanes<A>;
  const auto height = static_cast<A>(conv_.height), width = static_cast<A>(conv_.width);
  for (int64_t i = first; i < last; i += L) {
    const V y = line.y(i), x = line.x(i), mask = line.mask(i);
    const auto hit = (y > -1) & (y < height) & (x > -1) & (x < width);
    const V in_y = hit ? y : V{}, in_x = hit ? x : V{};
    const V floor_y = floor<A>(in_y), floor_x = floor<A>(in_x);
    put(i - first, hit, floor_y, floor_x);
    const CornerWeights<V> w = value_weights(Point<V>{in_y - floor_y, in_x - floor_x, mask});
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) store(weights[j] + (i - first), w.at[j] * mask);
  }
}

}  // namespace myops::deform::MYOPS_ISA
