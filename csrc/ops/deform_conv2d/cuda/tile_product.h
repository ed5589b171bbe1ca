// A product of matrices. Each block computes a tile of kRows x kColumns elements of the result: it
// copies one piece of both factors after another, kDepth rows of each, into shared memory, and its
// threads add the products of these pieces to their sums. FmaProduct multiplies in the type of the
// sums, TensorProduct on tensor cores. Used where a product has many rows; with few rows, most of a
// tile would be empty.
//
// Both have the type Sums, of one thread; fill_left and fill_right, which call value(d, i) once for
// each d below `depth` and each row or column i (neighbouring threads have neighbouring d if
// `along_depth`, otherwise neighbouring i); multiply, which adds the product of the two pieces to
// the sums; and each_sum.
#pragma once

#include "myops/device.h"
#include "myops/tensor_cores.h"

namespace myops::deform_kernels {

struct Tile {
  static constexpr int kThreads = 256;
  static constexpr int kRows = 64, kColumns = 64;
};

inline int64_t tiles(int64_t length, int64_t each) { return (length + each - 1) / each; }

// `kDepth` rows of both factors, the left one transposed.
template <class A>
struct FmaFactors {
  static constexpr int kDepth = 16;
  static constexpr int kGap = 4;  // so that a column of `left` or `right` is in several banks
  A left[kDepth][Tile::kRows + kGap];
  A right[kDepth][Tile::kColumns + kGap];
};

// Each thread multiplies kEach x kEach elements of the result.
template <class A>
struct FmaProduct {
  static constexpr int kDepth = FmaFactors<A>::kDepth, kEach = 4;
  static_assert(Tile::kRows * Tile::kColumns == kEach * kEach * Tile::kThreads, "all of a tile");

  struct Sums {
    A at[kEach][kEach];
    void add(const Sums& other) {
      for (int e = 0; e < kEach * kEach; ++e)
        at[e / kEach][e % kEach] += other.at[e / kEach][e % kEach];
    }
  };

  template <class Put>
  static void fill(int thread, int depth, bool along_depth, const Put& put) {
    constexpr int kSide = Tile::kRows;
    static_assert(Tile::kRows == Tile::kColumns, "both factors have as many");
    for (int e = thread; e < kDepth * kSide; e += Tile::kThreads) {
      const int d = along_depth ? e % kDepth : e / kSide;
      const int i = along_depth ? e / kDepth : e % kSide;
      if (d < depth) put(d, i);
    }
  }
  template <class Value>
  static void fill_left(FmaFactors<A>& factors, int thread, int depth, bool along_depth,
                        const Value& value) {
    fill(thread, depth, along_depth, [&](int d, int i) { factors.left[d][i] = value(d, i); });
  }
  template <class Value>
  static void fill_right(FmaFactors<A>& factors, int thread, int depth, bool along_depth,
                         const Value& value) {
    fill(thread, depth, along_depth, [&](int d, int i) { factors.right[d][i] = value(d, i); });
  }

  template <class B, class AllSums>
  static void multiply(const B& block, const FmaFactors<A>& factors, int depth, AllSums& sums) {
    block.each([&](int thread) {
      const int row = row_of(thread), column = column_of(thread);
      for (int d = 0; d < depth; ++d) {
        A left[kEach], right[kEach];
        for (int i = 0; i < kEach; ++i) {
          left[i] = factors.left[d][row + i];
          right[i] = factors.right[d][column + i];
        }
        for (int i = 0; i < kEach; ++i) {
          for (int j = 0; j < kEach; ++j) {
            A& sum = sums[thread].at[i][j];
            sum = std::fma(left[i], right[j], sum);
          }
        }
      }
    });
  }

  // Calls use(row, column, sum) for the elements of a thread that are inside the result.
  template <class Use>
  static void each_sum(int thread, const Sums& sums, int64_t rows, int64_t columns,
                       const Use& use) {
    for (int i = 0; i < kEach; ++i) {
      for (int j = 0; j < kEach; ++j) {
        const int row = row_of(thread) + i, column = column_of(thread) + j;
        if (row < rows && column < columns) use(row, column, sums.at[i][j]);
      }
    }
  }

  // Where the elements of a thread are in the tile.
  static int row_of(int thread) { return thread / (Tile::kColumns / kEach) * kEach; }
  static int column_of(int thread) { return thread % (Tile::kColumns / kEach) * kEach; }
};

// Words (TensorWord) of both factors: those of a row of the left one, and of a column of the right
// one, are neighbours.
struct TensorFactors {
  static constexpr int kWords = 16;
  static constexpr int kGap = 4;  // so that what a warp reads at once is in 32 banks
  uint32_t left[Tile::kRows][kWords + kGap];
  uint32_t right[Tile::kColumns][kWords + kGap];
};

// Each warp multiplies 16 rows and 32 columns of the result. What is no element of T is rounded to
// it (float32: to TF32) before it is multiplied; sums are float32.
template <class T>
struct TensorProduct {
  static constexpr int kWords = TensorFactors::kWords;
  static constexpr int kElements = TensorWord<T>::kElements;
  static constexpr int kDepth = kWords * kElements;
  static constexpr int kAcross = 4;  // products of 8 columns of a warp
  static constexpr int kWarpColumns = 8 * kAcross, kWarpsAcross = Tile::kColumns / kWarpColumns;
  static_assert(Tile::kRows * kWarpsAcross == 16 * Tile::kThreads / 32, "all of a tile");

  struct Sums : WarpSums<1, kAcross> {
    void add(const Sums& other) {
      for (int e = 0; e < 4 * kAcross; ++e) this->at[0][e / 4][e % 4] += other.at[0][e / 4][e % 4];
    }
  };

  template <int side, class Value>
  static void fill(uint32_t (&words)[side][kWords + TensorFactors::kGap], int thread, int depth,
                   bool along_depth, const Value& value) {
    for (int e = thread; e < kWords * side; e += Tile::kThreads) {
      const int word = along_depth ? e % kWords : e / side;
      const int i = along_depth ? e / kWords : e % side;
      words[i][word] = TensorWord<T>::of([&](int element) {
        const int d = word * kElements + element;
        return d < depth ? value(d, i) : 0.0f;
      });
    }
  }
  template <class Value>
  static void fill_left(TensorFactors& factors, int thread, int depth, bool along_depth,
                        const Value& value) {
    fill(factors.left, thread, depth, along_depth, value);
  }
  template <class Value>
  static void fill_right(TensorFactors& factors, int thread, int depth, bool along_depth,
                         const Value& value) {
    fill(factors.right, thread, depth, along_depth, value);
  }

  template <class B, class AllSums>
  static void multiply(const B& block, const TensorFactors& factors, int, AllSums& sums) {
    multiply_in_warps<T, kWords / 8, 1, kAcross>(
        block,
        [&](int thread, int step) {
          const int lane = thread % 32, row = row_of(thread), column = column_of(thread);
          WarpFactors<1, kAcross> made;
          for (int i = 0; i < 4; ++i) {
            made.left[0][i] = factors.left[row + left_row(lane, i)][8 * step + left_word(lane, i)];
          }
          for (int j = 0; j < kAcross; ++j) {
            for (int i = 0; i < 2; ++i) {
              made.right[j][i] =
                  factors
                      .right[column + 8 * j + right_column(lane)][8 * step + right_word(lane, i)];
            }
          }
          return made;
        },
        sums);
  }

  template <class Use>
  static void each_sum(int thread, const Sums& sums, int64_t rows, int64_t columns,
                       const Use& use) {
    const int lane = thread % 32;
    for (int j = 0; j < kAcross; ++j) {
      for (int i = 0; i < 4; ++i) {
        const int row = row_of(thread) + sum_row(lane, i);
        const int column = column_of(thread) + 8 * j + sum_column(lane, i);
        if (row < rows && column < columns) use(row, column, sums.at[0][j][i]);
      }
    }
  }

  // Where the elements of a thread's warp are in the tile.
  static int row_of(int thread) { return thread / 32 / kWarpsAcross * 16; }
  static int column_of(int thread) { return thread / 32 % kWarpsAcross * kWarpColumns; }
};

}  // namespace myops::deform_kernels
