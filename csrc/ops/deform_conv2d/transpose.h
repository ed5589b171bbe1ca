// Copies that transpose matrices: between NCHW and channels_last order.
#pragma once

#include "blocking.h"

namespace myops::deform::MYOPS_ISA {

template <class To, class A>
inline void narrow(const A* from, int64_t count, To* to) {
  int64_t i = 0;
  for (; i + kLanes<A> <= count; i += kLanes<A>) store_narrow<A>(to + i, load(from + i));
  if constexpr (!std::is_same_v<To, A>) {
    if (i == count) return;
    A rest[kLanes<A>] = {};
    To rounded[kLanes<A>];
    std::memcpy(rest, from + i, static_cast<size_t>(count - i) * sizeof(A));
    store_narrow<A>(rounded, load(rest));
    std::copy_n(rounded, count - i, to + i);
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
      T rest[kLanes<A>] = {};
      A wide[kLanes<A>];
      std::copy_n(from + i, count - i, rest);
      store(wide, load_wide<A>(rest));
      std::copy_n(wide, count - i, to + i);
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

// to[c * to_step + r] (+)= from[r * from_step + c] for r < rows and c < columns, converted.
template <bool kAdd, class To, class From>
inline void transpose_corner(const From* from, int64_t from_step, To* to, int64_t to_step,
                             int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      To& out = to[c * to_step + r];
      const To value = static_cast<To>(from[r * from_step + c]);
      if constexpr (kAdd) {
        out += value;
      } else {
        out = value;
      }
    }
  }
}

// In squares of kCount, the rest in smaller squares; 0: element by element.
template <int64_t kCount, bool kAdd, class To, class From>
void transpose_by(const From* from, int64_t from_step, To* to, int64_t to_step, int64_t rows,
                  int64_t columns) {
  using A = Accumulate<To>;
  if constexpr (kCount == 0) {
    transpose_corner<kAdd>(from, from_step, to, to_step, rows, columns);
  } else {
    using V = Lanes<A, kCount>;
    const int64_t whole_rows = rows / kCount * kCount, whole_columns = columns / kCount * kCount;
    for (int64_t r = 0; r < whole_rows; r += kCount) {
      for (int64_t c = 0; c < whole_columns; c += kCount) {
        V square[kCount];
        for (int64_t i = 0; i < kCount; ++i) {
          const From* row = from + (r + i) * from_step + c;
          if constexpr (kCount == kLanes<A>) {
            square[i] = load_wide<A>(row);
          } else {
            square[i] = load_as<V>(row);
          }
        }
        transpose<A, kCount>(square);
        for (int64_t i = 0; i < kCount; ++i) {
          To* out = to + (c + i) * to_step + r;
          if constexpr (kAdd) square[i] += load_as<V>(out);
          if constexpr (kCount == kLanes<A>) {
            store_narrow<A>(out, square[i]);
          } else {
            store(out, square[i]);
          }
        }
      }
    }
    constexpr int64_t kLess = std::is_same_v<To, From> && kCount > kQuad<A> ? kCount / 2 : 0;
    if (whole_columns < columns) {
      transpose_by<kLess, kAdd>(from + whole_columns, from_step, to + whole_columns * to_step,
                                to_step, whole_rows, columns - whole_columns);
    }
    if (whole_rows < rows) {
      transpose_by<kLess, kAdd>(from + whole_rows * from_step, from_step, to + whole_rows, to_step,
                                rows - whole_rows, columns);
    }
  }
}

// Between a 16-bit type and float, where squares of vectors do not fit: by way of float, whose
// squares can be smaller.
template <class To, class From>
void transpose_by_float(const From* from, int64_t from_step, To* to, int64_t to_step, int64_t rows,
                        int64_t columns) {
  constexpr int64_t kLong = 64, kShort = kLanes<float>;
  constexpr bool kWidens = std::is_same_v<To, float>;
  constexpr int64_t kRows = kWidens ? kShort : kLong, kColumns = kWidens ? kLong : kShort;
  float staged[kLong * kShort];
  if constexpr (kWidens) {
    if (from_step == columns && columns <= kShort) {  // short rows without gaps
      const int64_t some = kLong * kShort / columns;
      for (int64_t r = 0; r < rows; r += some) {
        const int64_t height = std::min(some, rows - r);
        widen(from + r * columns, 1, height * columns, staged);
        transpose_by<kShort, false>(staged, columns, to + r, to_step, height, columns);
      }
      return;
    }
  }
  for (int64_t r = 0; r < rows; r += kRows) {
    for (int64_t c = 0; c < columns; c += kColumns) {
      const int64_t height = std::min(kRows, rows - r), width = std::min(kColumns, columns - c);
      const From* part = from + r * from_step + c;
      To* out = to + c * to_step + r;
      if constexpr (kWidens) {
        for (int64_t i = 0; i < height; ++i) {
          widen(part + i * from_step, 1, width, staged + i * kLong);
        }
        transpose_by<kShort, false>(staged, kLong, out, to_step, height, width);
      } else {
        transpose_by<kShort, false>(part, from_step, staged, kLong, height, width);
        for (int64_t i = 0; i < width; ++i) narrow(staged + i * kLong, height, out + i * to_step);
      }
    }
  }
}

template <bool kAdd = false, class To, class From>
inline void transpose_copy(const From* from, int64_t from_step, To* to, int64_t to_step,
                           int64_t rows, int64_t columns) {
  using A = Accumulate<To>;
  if constexpr (!kAdd) {
    const bool row = rows == 1 && to_step == 1, column = columns == 1 && from_step == 1;
    if (row || column) {
      if constexpr (std::is_same_v<To, A>) {
        widen(from, 1, row ? columns : rows, to);
      } else {
        narrow(from, row ? columns : rows, to);
      }
      return;
    }
  }
  if constexpr (!kAdd && !std::is_same_v<To, From>) {
    if (rows % kLanes<A> != 0 || columns % kLanes<A> != 0) {
      return transpose_by_float(from, from_step, to, to_step, rows, columns);
    }
  }
  transpose_by<kLanes<A>, kAdd>(from, from_step, to, to_step, rows, columns);
}

}  // namespace myops::deform::MYOPS_ISA
