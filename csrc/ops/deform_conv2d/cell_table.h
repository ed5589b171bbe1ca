// Tables of cells: the four corners of a cell side by side, for each channel of a few. Tables are
// filled from X, and those with sums are added to the gradient of X; cell_strip.h uses them.
#pragma once

#include "image.h"

namespace myops::deform::MYOPS_ISA {

// The cells of a box of pixels, [channel][row][column][corner]. The cell of the last row and column
// are not used. Behind those of a channel there is space for a whole vector of cells, and
// `outside`: the cell of all samples outside of the image.
struct CellBox {
  Box box{0, 0, 0, 0};

  CellBox() = default;
  // Around the cells of `read`, and one more above and to the left, so that every pixel has four
  // cells.
  explicit CellBox(const Box& read) : box(read) {
    if (box.pixels() == 0) return;
    --box.top;
    --box.left;
  }
  int64_t rows() const { return box.bottom - box.top; }
  int64_t columns() const { return box.columns(); }
  template <class A>
  int64_t outside() const {
    return 4 * (box.pixels() + kLanes<A>);
  }
  template <class A>
  int64_t channel() const {  // elements of a channel
    return outside<A>() + 4;
  }
};

// Elements of a channel of a table with so many cells.
template <class A>
inline int64_t table_size(int64_t cells) {
  return 4 * (cells + kLanes<A> + 1);
}
// The pixels that samples read with a table of so many cells. It is one row and one column larger
// than what is read: 9 cells for 4 pixels.
inline int64_t pixels_read(int64_t cells) { return cells * 4 / 9; }

// a_0 b_0 a_1 b_1 ..., from the first lanes or the second half of them.
template <int kHalf, class V, int... kLane>
MYOPS_INLINE V interleave(V a, V b, std::integer_sequence<int, kLane...>) {
  constexpr int L = sizeof...(kLane);
  return shuffle<(kHalf * L / 2 + kLane / 2 + kLane % 2 * L)...>(a, b);
}
// a_0 a_1 b_0 b_1 a_2 a_3 ..., likewise.
template <int kHalf, class V, int... kLane>
MYOPS_INLINE V interleave_pairs(V a, V b, std::integer_sequence<int, kLane...>) {
  constexpr int L = sizeof...(kLane);
  return shuffle<(kHalf * L / 2 + kLane / 4 * 2 + kLane % 2 + kLane % 4 / 2 * L)...>(a, b);
}
// Cells from a vector for each corner.
template <class A>
MYOPS_INLINE void store_cells(A* to, const Vector<A> (&corners)[4]) {
  using V = Vector<A>;
  constexpr int64_t L = kLanes<A>;
  constexpr auto kAll = std::make_integer_sequence<int, static_cast<int>(L)>();
  const V first = interleave<0>(corners[0], corners[1], kAll);
  const V second = interleave<0>(corners[2], corners[3], kAll);
  const V third = interleave<1>(corners[0], corners[1], kAll);
  const V fourth = interleave<1>(corners[2], corners[3], kAll);
  store(to, interleave_pairs<0>(first, second, kAll));
  store(to + L, interleave_pairs<1>(first, second, kAll));
  store(to + 2 * L, interleave_pairs<0>(third, fourth, kAll));
  store(to + 3 * L, interleave_pairs<1>(third, fourth, kAll));
}

// Lanes 0 and 1 of every four, plus lanes 2 and 3 of the others.
template <class V, int... kLane>
MYOPS_INLINE V add_swapped(V a, V b, std::integer_sequence<int, kLane...>) {
  return a + shuffle<(kLane / 4 * 4 + (kLane + 2) % 4)...>(b, b);
}
// Lane 0 of every four lanes of a and b, then lane 1 of these.
template <class V, int... kLane>
MYOPS_INLINE V first_lanes_of_fours(V a, V b, std::integer_sequence<int, kLane...>) {
  constexpr int L = sizeof...(kLane);
  return shuffle<(kLane % (L / 2) * 4 + kLane / (L / 2))...>(a, b);
}
template <int kHalf, class V, int... kLane>
MYOPS_INLINE V halves(V a, V b, std::integer_sequence<int, kLane...>) {
  constexpr int L = sizeof...(kLane);
  return shuffle<(kHalf * L / 2 + kLane % (L / 2) + kLane / (L / 2) * L)...>(a, b);
}
// For kLanes pixels: what the cells of these give to their left columns, and what to the right.
template <class A>
MYOPS_INLINE void load_columns(const A* lower, const A* upper, A* lefts, A* rights) {
  using V = Vector<A>;
  constexpr int64_t L = kLanes<A>;
  constexpr auto kAll = std::make_integer_sequence<int, static_cast<int>(L)>();
  V sums[4];
#pragma GCC unroll 4
  for (int64_t i = 0; i < 4; ++i) {
    sums[i] = add_swapped(load(lower + i * L), load(upper + i * L), kAll);
  }
  const V low = first_lanes_of_fours(sums[0], sums[1], kAll);
  const V high = first_lanes_of_fours(sums[2], sums[3], kAll);
  store(lefts, halves<0>(low, high, kAll));
  store(rights, halves<1>(low, high, kAll));
}

// Fills a table with the cells of X. `window` can hold the pixels of the channels and two
// vectors more.
template <class T, class A>
void fill_cells(const StridedView<const T>& X, const ConvShape& conv, int64_t image,
                const Range& channels, const CellBox& cells, A* window, A* table) {
  constexpr int64_t L = kLanes<A>;
  const Box& box = cells.box;
  const int64_t size = box.pixels(), width = box.columns(), count = channels.count();
  const Box in{std::max<int64_t>(box.top, 0), std::min(box.bottom, conv.height),
               std::max<int64_t>(box.left, 0), std::min(box.right, conv.width)};
  const bool covered = in.pixels() == size;
  if (!covered) std::fill_n(window, count * size, A{});
  for (int64_t y = in.top; y < in.bottom && in.left < in.right; ++y) {
    const T* from = X.at(image, channels.first, y, in.left);
    A* to = window + (y - box.top) * width + in.left - box.left;
    if (X.channels_last()) {
      transpose_copy(from, X.step[3], to, size, in.columns(), count);
      continue;
    }
    for (int64_t c = 0; c < count; ++c) {
      widen(from + c * X.step[1], X.step[3], in.columns(), to + c * size);
    }
  }
  std::fill_n(window + count * size, 2 * L, A{});
  for (int64_t c = 0; c < count; ++c, window += size, table += cells.channel<A>()) {
    for (int64_t y = 0; y + 1 < cells.rows(); ++y) {
      const A* upper = window + y * width;
      A* to = table + 4 * y * width;
      if constexpr (L < 4) {
        for (int64_t x = 0; x + 1 < width; ++x, ++upper, to += 4) {
          to[0] = upper[0];
          to[1] = upper[1];
          to[2] = upper[width];
          to[3] = upper[width + 1];
        }
      } else {
        for (int64_t x = 0; x + 1 < width; x += L, upper += L, to += 4 * L) {
          const Vector<A> corners[4] = {load(upper), load(upper + 1), load(upper + width),
                                        load(upper + width + 1)};
          store_cells(to, corners);
        }
      }
    }
    std::fill_n(table + cells.outside<A>(), 4, A{});
  }
}

// Memory of add_table() for tables of up to `cells`, in three rows or more.
template <class A>
inline int64_t line_size(int64_t cells, int64_t channels) {
  return (2 * channels + 1) * (cells / 3 + 1 + kLanes<A>);
}

// Adds the sums of a table to the rows [first, last) of an image: channel c of pixel (y, x) is at
// to[c * channel + (y - first) * row + x * pixel].
template <class A>
void add_table(const CellBox& cells, const A* table, int64_t channels, const Range& rows,
               int64_t width, A* to, int64_t channel, int64_t row, int64_t pixel, A* line) {
  constexpr int64_t L = kLanes<A>;
  const Box& box = cells.box;
  const int64_t left = std::max<int64_t>(box.left + 1, 0), right = std::min(box.right, width);
  const int64_t top = std::max(box.top + 1, rows.first), bottom = std::min(box.bottom, rows.last);
  const int64_t columns = box.columns(), span = round_up(columns, L), count = right - left;
  if (count <= 0) return;
  A *const rights = line + channels * span, *const pixels = rights + span;
  for (int64_t y = top; y < bottom; ++y) {
    const A* lower = table + 4 * (y - box.top) * columns;
    A* const out = to + (y - rows.first) * row + left * pixel;
    for (int64_t c = 0; c < channels; ++c, lower += cells.channel<A>()) {
      A* const lefts = line + c * span;
      const A* const upper = lower - 4 * columns;
      if constexpr (L < 4) {
        for (int64_t x = 0; x < columns; ++x) {
          lefts[x] = lower[4 * x] + upper[4 * x + 2];
          rights[x] = lower[4 * x + 1] + upper[4 * x + 3];
        }
      } else {
        for (int64_t x = 0; x < columns; x += L) {
          load_columns(lower + 4 * x, upper + 4 * x, lefts + x, rights + x);
        }
      }
      A* const sums = lefts + left - box.left;
      const A* const others = rights + left - box.left - 1;
      add_to(others, 1, count, sums);
      if (pixel == 1) add_to(sums, 1, count, out + c * channel);
    }
    if (pixel == 1) continue;
    transpose_copy(line + left - box.left, span, pixels, channels, channels, count);
    if (pixel == channels) {
      add_to(pixels, 1, count * channels, out);
      continue;
    }
    for (int64_t x = 0; x < count; ++x) {
      add_to(pixels + x * channels, 1, channels, out + x * pixel);
    }
  }
}

// Tables in which each entry has a cell of its own, for entries that are far apart.
inline CellBox cells_of(const Entries& entries) {
  CellBox cells;
  cells.box = {0, 1, 0, entries.taps() * entries.pixels()};
  return cells;
}
// Calls body(count); with a constant for one channel, for which a loop would take longer.
template <class Body>
MYOPS_INLINE void with_channels(int64_t count, const Body& body) {
  if (count == 1) return body(std::integral_constant<int64_t, 1>{});
  body(count);
}
// As fill_cells().
template <class T, class A>
void fill_far(const StridedView<const T>& X, const ConvShape& conv, int64_t image,
              const Range& channels, const Taps<T>& taps, const Entries& entries, A* table) {
  const CellBox cells = cells_of(entries);
  const int64_t size = cells.channel<A>(), channel = X.step[1], row = X.step[2], pixel = X.step[3];
  const T* const plane = X.at(image, channels.first, 0, 0);
  std::fill_n(table, channels.count() * size, A{});
  with_channels(channels.count(), [&](const auto count) {
    each_far_cell(
        taps, entries, {0, conv.height}, conv.width,
        [&](int64_t place, int64_t y, int64_t x) MYOPS_INLINED {
          const T* from = plane + y * row + x * pixel;
          A* to = table + place;
          for (int64_t c = 0; c < count; ++c, from += channel, to += size) {
            to[0] = static_cast<A>(from[0]);
            to[1] = static_cast<A>(from[pixel]);
            to[2] = static_cast<A>(from[row]);
            to[3] = static_cast<A>(from[row + pixel]);
          }
        },
        [&](int64_t place, int64_t number, int64_t y, int64_t x) MYOPS_INLINED {
          const T* const from = plane + y * row + x * pixel;
          A* const to = table + place + number;
          for (int64_t c = 0; c < count; ++c) to[c * size] = static_cast<A>(from[c * channel]);
        });
  });
}
// As add_table().
template <class T, class A>
void add_far(const Taps<T>& taps, const Entries& entries, const A* table, int64_t channels,
             const Range& rows, int64_t width, A* to, int64_t channel, int64_t row, int64_t pixel) {
  const int64_t size = cells_of(entries).channel<A>();
  with_channels(channels, [&](const auto count) {
    each_far_cell(
        taps, entries, rows, width,
        [&](int64_t place, int64_t y, int64_t x) MYOPS_INLINED {
          const A* from = table + place;
          A* at = to + (y - rows.first) * row + x * pixel;
          for (int64_t c = 0; c < count; ++c, from += size, at += channel) {
            at[0] += from[0];
            at[pixel] += from[1];
            at[row] += from[2];
            at[row + pixel] += from[3];
          }
        },
        [&](int64_t place, int64_t number, int64_t y, int64_t x) MYOPS_INLINED {
          const A* const from = table + place + number;
          A* const at = to + (y - rows.first) * row + x * pixel;
          for (int64_t c = 0; c < count; ++c) at[c * channel] += from[c * size];
        });
  });
}

}  // namespace myops::deform::MYOPS_ISA
