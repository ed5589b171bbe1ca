// Copies that transpose matrices: between NCHW and channels_last order.
#pragma once

#include "blocking.h"

namespace myops::deform::MYOPS_ISA {

template <class To, class A>
inline void narrow(const A* from, int64_t count, To* to) {
  int64_t i = 0;
  for (; i + kLanes<A> <= count; i += kLanes<A>) store_narrow<A>(to + i, load(from + i));
  for (; i < count; ++i) to[i] = static_cast<To>(from[i]);
}

template <class T, class A>
inline void widen(const T* from, int64_t step, int64_t count, A* to) {
  int64_t i = 0;
  if (step == 1) {
    for (; i + kLanes<A> <= count; i += kLanes<A>) store(to + i, load_wide<A>(from + i));
    if constexpr (std::is_same_v<T, A>) {
      using Quad = Lanes<A, kQuad<A>>;
      for (; i + kQuad<A> <= count; i += kQuad<A>) store(to + i, load_as<Quad>(from + i));
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

template <bool kAdd = false, class To, class From>
inline void transpose_copy(const From* from, int64_t from_step, To* to, int64_t to_step,
                           int64_t rows, int64_t columns) {
  transpose_by<kLanes<Accumulate<To>>, kAdd>(from, from_step, to, to_step, rows, columns);
}

}  // namespace myops::deform::MYOPS_ISA
