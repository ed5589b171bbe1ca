// A product of matrices. Each block computes a tile of kRows x kColumns elements of the result: it
// copies one piece of both factors after another into shared memory, and each thread adds the
// products for kEach x kEach elements of the result. Used where a product has many rows; with few
// rows, most of a tile would be empty.
#pragma once

#include "myops/device.h"

namespace myops::deform_kernels {

struct Tile {
  static constexpr int kThreads = 256, kEach = 4;
  static constexpr int kRows = 64, kColumns = 64, kDepth = 16;
  static constexpr int kGap = 4;  // so that a column of `left` or `right` is in several banks
};

// `kDepth` rows of both factors, the left one transposed.
template <class A>
struct TileFactors {
  A left[Tile::kDepth][Tile::kRows + Tile::kGap];
  A right[Tile::kDepth][Tile::kColumns + Tile::kGap];
};

// What a thread has of the result.
template <class A>
struct TileSums {
  A at[Tile::kEach][Tile::kEach];
};

inline int64_t tiles(int64_t length, int64_t each) { return (length + each - 1) / each; }

// Where the elements of a thread are in the tile.
inline int row_of(int thread) { return thread / (Tile::kColumns / Tile::kEach) * Tile::kEach; }
inline int column_of(int thread) { return thread % (Tile::kColumns / Tile::kEach) * Tile::kEach; }

// Calls put(d, i) once for each d below `depth` and i below 64, in some thread. Neighbouring
// threads have neighbouring d if `along_depth`, otherwise neighbouring i.
template <class Put>
void fill(int thread, int depth, bool along_depth, const Put& put) {
  constexpr int kSide = Tile::kRows;
  static_assert(Tile::kRows == Tile::kColumns, "both factors have as many");
  for (int e = thread; e < Tile::kDepth * kSide; e += Tile::kThreads) {
    const int d = along_depth ? e % Tile::kDepth : e / kSide;
    const int i = along_depth ? e / Tile::kDepth : e % kSide;
    if (d < depth) put(d, i);
  }
}

// Adds the products of the `depth` rows that are there to the sums of a thread.
template <class A>
void multiply(const TileFactors<A>& factors, int depth, int thread, TileSums<A>& sums) {
  const int row = row_of(thread), column = column_of(thread);
  for (int d = 0; d < depth; ++d) {
    A left[Tile::kEach], right[Tile::kEach];
    for (int i = 0; i < Tile::kEach; ++i) {
      left[i] = factors.left[d][row + i];
      right[i] = factors.right[d][column + i];
    }
    for (int i = 0; i < Tile::kEach; ++i) {
      for (int j = 0; j < Tile::kEach; ++j) {
        sums.at[i][j] = std::fma(left[i], right[j], sums.at[i][j]);
      }
    }
  }
}

// Calls use(row, column, sum) for the elements of a thread that are inside the result.
template <class A, class Use>
void each_sum(int thread, const TileSums<A>& sums, int64_t rows, int64_t columns, const Use& use) {
  for (int i = 0; i < Tile::kEach; ++i) {
    for (int j = 0; j < Tile::kEach; ++j) {
      const int row = row_of(thread) + i, column = column_of(thread) + j;
      if (row < rows && column < columns) use(row, column, sums.at[i][j]);
    }
  }
}

}  // namespace myops::deform_kernels
