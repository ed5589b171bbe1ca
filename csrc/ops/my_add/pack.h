// Copies of what an operand has in a block of the result, in the order of the result: `rows` rows
// of `columns` elements, one after another. `row_step` and `step` are the operand's.
#pragma once

#include "myops/simd.h"

namespace myops::my_add::MYOPS_ISA {

using namespace ::myops::MYOPS_ISA;

// Elements are only moved, so vectors contain them as integers of their size.
template <class T>
using Bits = std::conditional_t<sizeof(T) == 2, uint16_t,
                                std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

// How many elements pack() may write behind the last one, as it stores whole vectors.
template <class T>
inline constexpr int64_t kSlack = kLanes<Bits<T>>;

template <class T>
MYOPS_INLINE void copy_row(const T* from, int64_t count, T* to) {
  constexpr int64_t L = kLanes<Bits<T>>, Q = kQuad<Bits<T>>;
  int64_t i = 0;
  for (; i + L <= count; i += L) store(to + i, load_as<Vector<Bits<T>>>(from + i));
  for (; i + Q <= count; i += Q) store(to + i, load_as<Lanes<Bits<T>, Q>>(from + i));
  for (; i < count; ++i) to[i] = from[i];
}

// The row that `to` begins with, `rows` times.
template <class T>
void repeat_row(int64_t columns, int64_t rows, T* to) {
  const int64_t all = rows * columns;
  for (int64_t done = columns; done < all; done *= 2) {
    std::copy_n(to, std::min(done, all - done), to + done);
  }
}

// Rows that have one element each.
template <class T>
void repeat_elements(const T* from, int64_t row_step, int64_t rows, int64_t columns, T* to) {
  for (int64_t row = 0; row < rows; ++row, to += columns) {
    Bits<T> bits;
    std::memcpy(&bits, from + row * row_step, sizeof bits);
    const auto element = Vector<Bits<T>>{} + bits;
    for (int64_t i = 0; i < columns; i += kLanes<Bits<T>>) store(to + i, element);
  }
}

// Rows of the block that lie side by side in the operand, whose columns begin at `at`: squares are
// transposed in registers. The last square of some rows, and that of the last rows, overlap those
// before. With fewer columns than a square has, each row is written over what its predecessor wrote
// behind its end.
template <class T>
void transpose_columns(const T* from, const int64_t* at, int64_t rows, int64_t columns, T* to) {
  constexpr int64_t L = sizeof(T) == 2 ? kQuad<Bits<T>> : kLanes<Bits<T>>;
  using Row = Lanes<Bits<T>, L>;
  const int64_t last = std::min(L, columns) - 1;
  for (int64_t done = 0; done < rows; done += L) {
    const int64_t row = std::min(done, rows - L);
    for (int64_t next = 0; next < columns; next += L) {
      const int64_t i = std::max<int64_t>(std::min(next, columns - L), 0);
      Row square[L];
#pragma GCC unroll 8
      for (int64_t k = 0; k < L; ++k) {
        square[k] = load_as<Row>(from + at[i + std::min(k, last)] + row);
      }
      transpose<Bits<T>, L>(square);
#pragma GCC unroll 8
      for (int64_t k = 0; k < L; ++k) store(to + (row + k) * columns + i, square[k]);
    }
  }
}

// A block whose columns begin at `at` in the operand.
template <class T>
void pack_columns(const T* from, int64_t row_step, const int64_t* at, int64_t rows, int64_t columns,
                  T* to) {
  constexpr int64_t kSide = sizeof(T) == 2 ? kQuad<Bits<T>> : kLanes<Bits<T>>;
  if (row_step == 1 && rows >= kSide) return transpose_columns(from, at, rows, columns, to);
  for (int64_t row = 0; row < rows; ++row, from += row_step, to += columns) {
    for (int64_t i = 0; i < columns; ++i) to[i] = from[at[i]];
  }
}

template <class T>
void pack(const T* from, int64_t row_step, int64_t step, int64_t rows, int64_t columns, T* to) {
  if (row_step == 0 && rows > 1) {
    pack(from, columns, step, 1, columns, to);
    repeat_row(columns, rows, to);
  } else if (step == 0) {
    repeat_elements(from, row_step, rows, columns, to);
  } else if (step == 1 && (row_step == columns || rows == 1)) {
    copy_row(from, rows * columns, to);
  } else if (step == 1) {
    for (int64_t row = 0; row < rows; ++row) {
      copy_row(from + row * row_step, columns, to + row * columns);
    }
  } else if (rows < columns) {
    for (int64_t row = 0; row < rows; ++row, to += columns) {
      for (int64_t i = 0; i < columns; ++i) to[i] = from[row * row_step + i * step];
    }
  } else {
    for (int64_t i = 0; i < columns; ++i) {
      for (int64_t row = 0; row < rows; ++row) {
        to[row * columns + i] = from[row * row_step + i * step];
      }
    }
  }
}

}  // namespace myops::my_add::MYOPS_ISA
