// Copies that transpose matrices: between NCHW and channels_last order.
#pragma once

#include "blocking.h"

namespace myops::deform::MYOPS_ISA {

template <class To, class A>
inline void narrow(const A* from, int64_t count, To* to) {
  int64_t i = 0;
  for (; i + kLanes<A> <= count; i += kLanes<A>) store_narrow<A>(to + i, load(from + i));
  if constexpr (!std::is_same_v<To, A>) {
    if (i < count) store_part<A>(to + i, load_part<A>(from + i, count - i), count - i);
  } else {
    for (; i < count; ++i) to[i] = from[i];
  }
}

template <class T, class A>
inline void widen(const T* from, int64_t step, int64_t count, A* to) {
  int64_t i = 0;
  if (step == 1) {
    for (; i + kLanes<A> <= count; i += kLanes<A>) store(to + i, load_wide<A>(from + i));
    if constexpr (std::is_same_v<T, A>) {
      using Quad = Lanes<A, kQuad<A>>;
      for (; i + kQuad<A> <= count; i += kQuad<A>) store(to + i, load_as<Quad>(from + i));
    } else if (i < count) {
      store_part<A>(to + i, load_part<A>(from + i, count - i), count - i);
      return;
    }
  }
  for (; i < count; ++i) to[i] = static_cast<A>(from[i * step]);
}

template <class A>
inline void add_to(const A* from, int64_t step, int64_t count, A* to) {  // `step`: of `to`
  using Quad = Lanes<A, kQuad<A>>;
  int64_t i = 0;
  if (step == 1) {
    for (; i + kLanes<A> <= count; i += kLanes<A>) store(to + i, load(to + i) + load(from + i));
    for (; i + kQuad<A> <= count; i += kQuad<A>) {
      store(to + i, load_as<Quad>(to + i) + load_as<Quad>(from + i));
    }
  }
  for (; i < count; ++i) to[i * step] += from[i];
}

// Two neighbours in a row of an image in the order of pixels; kAdd: added to what is there.
template <bool kAdd = false, class A>
MYOPS_INLINE void copy_pair(const A* from, int64_t pixel, A* to) {
  using Half = Lanes<A, kHalf<A>>;
  for (int64_t i = 0; i < 2 * pixel; i += kHalf<A>) {
    const Half pair = load_as<Half>(from + i);
    store(to + i, kAdd ? load_as<Half>(to + i) + pair : pair);
  }
}

// The pixels of a line in registers: kSide lines of kLanes pixels, transposed.
template <int64_t kSide, class A>
MYOPS_INLINE void transpose_groups(Vector<A>* lines) {
  if constexpr (kSide > 1) {
    transpose_squares<1, static_cast<int>(kSide)>(
        lines, std::make_integer_sequence<int, static_cast<int>(kLanes<A>)>());
  }
}
template <int64_t kSide, class A, int... kPixel>
MYOPS_INLINE void store_pixels(const Vector<A>* lines, A* to, int64_t step,
                               std::integer_sequence<int, kPixel...>) {
  constexpr int kLine = static_cast<int>(kSide);
  (store(to + kPixel * step, group_of<kSide, kPixel / kLine, A>(lines[kPixel % kLine])), ...);
}

// Lines of `to`, whose pixels are `step` elements apart; `gap` elements lie between a line of
// `columns` pixels and the next.
struct PixelLines {
  int64_t step, columns, gap;
};

// kSide elements of each of `count` pixels from as many rows; those from `rows` on are 0.
template <int64_t kSide, class From, class A>
void spread_rows(const From* from, int64_t from_step, int64_t rows, int64_t count, A* to,
                 const PixelLines& at) {
  constexpr int64_t L = kLanes<A>;
  constexpr auto kAll = std::make_integer_sequence<int, static_cast<int>(L)>();
  const bool one = count <= at.columns;
  int64_t column = 0;  // of the next pixel in its line
  for (int64_t c = 0; c < count; c += L) {
    // The last pixels of a single line are copied together with some of those before them.
    if (one && count - c < L && count >= L) {
      to -= (c + L - count) * at.step;
      c = count - L;
    }
    const int64_t some = std::min(L, count - c);
    Vector<A> lines[kSide];
#pragma GCC unroll 16
    for (int64_t i = 0; i < kSide; ++i) {
      lines[i] = Vector<A>{};
      if (i >= rows) continue;
      const From* row = from + i * from_step + c;
      lines[i] = some == L ? load_wide<A>(row) : load_part<A>(row, some);
    }
    transpose_groups<kSide, A>(lines);
    if (some == L && (one || column + L <= at.columns)) {
      store_pixels<kSide>(lines, to, at.step, kAll);
      to += L * at.step;
      column += L;
      if (!one && column == at.columns) {
        to += at.gap;
        column = 0;
      }
      continue;
    }
    A staged[L * kSide];
    store_pixels<kSide>(lines, staged, kSide, kAll);
    for (int64_t p = 0; p < some; ++p) {
      store(to, load_as<Lanes<A, kSide>>(staged + p * kSide));
      to += at.step;
      if (++column == at.columns) {
        to += at.gap;
        column = 0;
      }
    }
  }
}

// `columns` <= kSide elements of each of `rows` pixels to as many lines; kSide are read.
template <int64_t kSide, bool kAdd, class From, class To>
void collect_columns(const From* from, int64_t from_step, int64_t rows, int64_t columns, To* to,
                     int64_t to_step) {
  using A = Accumulate<To>;
  constexpr int64_t L = kLanes<A>;
  for (int64_t r = 0; r < rows; r += L) {
    if (!kAdd && rows - r < L && rows >= L) r = rows - L;
    const int64_t some = std::min(L, rows - r);
    Vector<A> lines[kSide];
    if (some == L) {
      const From* first = from + r * from_step;
#pragma GCC unroll 16
      for (int64_t i = 0; i < kSide; ++i) {
        lines[i] = load_groups_wide<kSide, A>(first + i * from_step, kSide * from_step);
      }
    } else {
      From staged[L * kSide] = {};
      for (int64_t p = 0; p < some; ++p) {
        std::memcpy(staged + p * kSide, from + (r + p) * from_step, kSide * sizeof(From));
      }
#pragma GCC unroll 16
      for (int64_t i = 0; i < kSide; ++i) {
        lines[i] = load_groups_wide<kSide, A>(staged + i * kSide, kSide * kSide);
      }
    }
    transpose_groups<kSide, A>(lines);
#pragma GCC unroll 16
    for (int64_t c = 0; c < kSide; ++c) {
      if (c >= columns) break;
      To* const out = to + c * to_step + r;
      if (some == L) {
        if constexpr (kAdd) lines[c] += load_wide<A>(out);
        store_narrow<A>(out, lines[c]);
      } else {
        if constexpr (kAdd) lines[c] += load_part<A>(out, some);
        store_part<A>(out, lines[c], some);
      }
    }
  }
}

// How many elements are moved at a time if `left` are left: whole groups of 16 bytes if both sides
// are `padded` to them, otherwise at most `left`.
template <class A, class Body>
MYOPS_INLINE void for_each_side(int64_t count, bool padded, const Body& body) {
  constexpr int64_t L = kLanes<A>, H = std::max<int64_t>(L / 2, 1), Q = std::min(kQuad<A>, L);
  int64_t first = 0;
  while (first < count) {
    const int64_t left = padded ? (count - first + Q - 1) / Q * Q : count - first;
    const auto by = [&](auto side) {
      body(side, first, std::min<int64_t>(side, count - first));
      first += side;
    };
    if (left >= L) {
      by(std::integral_constant<int64_t, L>());
    } else if (H >= Q && left >= H) {
      by(std::integral_constant<int64_t, H>());
    } else if (left >= Q) {
      by(std::integral_constant<int64_t, Q>());
    } else if (left >= 2) {
      by(std::integral_constant<int64_t, 2>());
    } else {
      by(std::integral_constant<int64_t, 1>());
    }
  }
}

// The channels of planes, `plane` elements apart, to pixels: `count` pixels in lines of
// at.columns. Elements behind the channels of a pixel are set to 0, up to whole groups of 16 bytes.
template <class From, class A>
void planes_to_pixels(const From* from, int64_t plane, int64_t channels, int64_t count, A* to,
                      const PixelLines& at) {
  for_each_side<A>(channels, true, [&](auto side, int64_t first, int64_t rows) {
    spread_rows<side>(from + first * plane, plane, rows, count, to + first, at);
  });
}
// (+)=, the reverse; behind the last pixel up to kLanes elements are read.
template <bool kAdd = false, class A, class To>
void pixels_to_planes(const A* from, int64_t step, int64_t count, int64_t channels, To* to,
                      int64_t plane) {
  for_each_side<A>(channels, true, [&](auto side, int64_t first, int64_t columns) {
    collect_columns<side, kAdd>(from + first, step, count, columns, to + first * plane, plane);
  });
}

// A 16-bit `To` is transposed as float and rounded line by line.
template <class To, class From>
void transpose_narrow(const From* from, int64_t from_step, To* to, int64_t to_step, int64_t rows,
                      int64_t columns) {
  constexpr int64_t kLong = 64, kShort = kLanes<float>, kFew = 4;
  if (rows <= kFew) {  // pixels of a few channels are shorter than any vector
    To lines[kFew * kLong];
    for (int64_t c = 0; c < columns; c += kLong, to += kLong * to_step) {
      const int64_t width = std::min(kLong, columns - c);
      for (int64_t r = 0; r < rows; ++r) narrow(from + r * from_step + c, width, lines + r * kLong);
      for (int64_t i = 0; i < width; ++i) {
        for (int64_t r = 0; r < rows; ++r) to[i * to_step + r] = lines[r * kLong + i];
      }
    }
    return;
  }
  float staged[kLong * kShort];
  for (int64_t r = 0; r < rows; r += kLong) {
    for (int64_t c = 0; c < columns; c += kShort) {
      const int64_t height = std::min(kLong, rows - r), width = std::min(kShort, columns - c);
      const From* part = from + r * from_step + c;
      for_each_side<float>(width, false, [&](auto side, int64_t first, int64_t some) {
        collect_columns<side, false>(part + first, from_step, height, some, staged + first * kLong,
                                     kLong);
      });
      To* out = to + c * to_step + r;
      for (int64_t i = 0; i < width; ++i) narrow(staged + i * kLong, height, out + i * to_step);
    }
  }
}

// to[c * to_step + r] = from[r * from_step + c] for r < rows and c < columns, converted. Nothing
// else is read or written.
template <class To, class From>
inline void transpose_copy(const From* from, int64_t from_step, To* to, int64_t to_step,
                           int64_t rows, int64_t columns) {
  using A = Accumulate<To>;
  const bool row = rows == 1 && to_step == 1, column = columns == 1 && from_step == 1;
  if constexpr (std::is_same_v<To, A>) {
    if (row || column) return widen(from, 1, row ? columns : rows, to);
    constexpr int64_t L = kLanes<A>;
    if (rows > L && rows % L != 0 && columns >= L) {  // whole squares, then the rows that are left
      const int64_t whole = rows / L * L;
      transpose_copy(from, from_step, to, to_step, whole, columns);
      return transpose_copy(from + whole * from_step, from_step, to + whole, to_step, rows - whole,
                            columns);
    }
    if (rows >= columns || rows >= L) {
      for_each_side<A>(columns, false, [&](auto side, int64_t first, int64_t some) {
        collect_columns<side, false>(from + first, from_step, rows, some, to + first * to_step,
                                     to_step);
      });
    } else {
      for_each_side<A>(rows, false, [&](auto side, int64_t first, int64_t some) {
        spread_rows<side>(from + first * from_step, from_step, some, columns, to + first,
                          PixelLines{to_step, columns, 0});
      });
    }
  } else {
    if (row || column) return narrow(from, row ? columns : rows, to);
    transpose_narrow(from, from_step, to, to_step, rows, columns);
  }
}

}  // namespace myops::deform::MYOPS_ISA
