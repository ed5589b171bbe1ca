// A product of matrices. Each block computes a tile of kRows x kColumns elements of the result: it
// copies one piece of both factors after another, kDepth rows of each, into shared memory, and its
// threads add the products of these pieces to their sums. While it multiplies one piece, the next
// one is on its way to the registers. FmaProduct multiplies in the type of the sums, TensorProduct
// on tensor cores. Used where a product has many rows; with few rows, most of a tile would be
// empty.
//
// A thread copies one unit of each factor and piece: Pack<T>::kCount elements that are neighbours
// in memory, along the side of the tile (of rows, or of columns) or along the depth.
#pragma once

#include "myops/device.h"
#include "myops/tensor_cores.h"

namespace myops::deform_kernels {

struct Tile {
  static constexpr int kThreads = 256;
  static constexpr int kRows = 64, kColumns = 64;
};

inline int64_t tiles(int64_t length, int64_t each) { return (length + each - 1) / each; }

enum class Along { Side, Depth };

// Neighbouring elements that are read or written together.
template <class T, int count>
struct alignas(sizeof(T) * count < 16 ? sizeof(T) * count : 16) Run {
  T at[count];
};

// The first element of a thread's unit.
struct Unit {
  int d, i;
  bool exists;  // there are fewer units than threads where elements are narrow
};

// `kDepth` rows of both factors, the left one transposed.
template <class A, int columns>
struct alignas(16) FmaFactors {
  static constexpr int kDepth = 64 / sizeof(A) < 16 ? 8 : 16;
  static constexpr int kGap = Pack<A>::kCount;  // so that a column is in several banks
  A left[kDepth][Tile::kRows + kGap], right[kDepth][columns + kGap];
};

// Each thread multiplies kEach x kRun elements of the result. With fewer columns there are more
// tiles.
template <class T, class A, int columns = Tile::kColumns>
struct FmaProduct {
  using Factors = FmaFactors<A, columns>;
  static constexpr bool kTensor = false;
  static constexpr int kColumns = columns;
  static constexpr int kUnit = Pack<T>::kCount;
  static constexpr int kDepth = Factors::kDepth, kEach = 4;
  static constexpr int kRun = columns / 16;  // elements of a row of the result that a thread has
  static_assert(Tile::kRows * columns == kEach * kRun * Tile::kThreads, "all of a tile");

  struct Sums {
    A at[kEach][kRun];
  };

  template <Along along, class Side>
  static void store(Side& side, const Unit& unit, const A* values) {
    if constexpr (along == Along::Depth) {
      for (int v = 0; v < kUnit; ++v) side[unit.d + v][unit.i] = values[v];
    } else {
      constexpr int kCount = Pack<A>::kCount;
      for (int v = 0; v < kUnit; v += kCount) {
        Pack<A> pack;
        for (int w = 0; w < kCount; ++w) pack.at[w] = values[v + w];
        *reinterpret_cast<Pack<A>*>(&side[unit.d][unit.i + v]) = pack;
      }
    }
  }

  template <class B, class AllSums>
  static void multiply(const B& block, const Factors& factors, AllSums& sums) {
    block.begin([&](int thread) {
      const int row = row_of(thread), column = column_of(thread);
      for (int d = 0; d < kDepth; ++d) {
        const auto left = *reinterpret_cast<const Run<A, kEach>*>(&factors.left[d][row]);
        const auto right = *reinterpret_cast<const Run<A, kRun>*>(&factors.right[d][column]);
        for (int i = 0; i < kEach; ++i) {
          for (int j = 0; j < kRun; ++j) {
            A& sum = sums[thread].at[i][j];
            sum = std::fma(left.at[i], right.at[j], sum);
          }
        }
      }
    });
  }

  // Calls use(row, column, kRun sums) for the elements of a thread.
  template <class Use>
  static void each_run(int thread, const Sums& sums, const Use& use) {
    for (int i = 0; i < kEach; ++i) use(row_of(thread) + i, column_of(thread), sums.at[i]);
  }

  // Where the elements of a thread are: a warp has 16 rows and half of the columns, so that what it
  // reads of a row of either factor is in different banks.
  static int row_of(int thread) { return thread / 64 * 16 + thread % 32 / 8 * kEach; }
  static int column_of(int thread) { return thread / 32 % 2 * (columns / 2) + thread % 8 * kRun; }
};

// Words (TensorWord) of both factors: those of a row of the left one, and of a column of the right
// one, are neighbours.
struct alignas(16) TensorFactors {
  static constexpr int kWords = 16;
  static constexpr int kGap = 4;  // so that what a warp reads at once is in 32 banks
  uint32_t left[Tile::kRows][kWords + kGap], right[Tile::kColumns][kWords + kGap];
};

// Each warp multiplies 16 rows and 32 columns of the result. What is no element of T is rounded to
// it (float32: to TF32) before it is multiplied; sums are float32.
template <class T>
struct TensorProduct {
  using Factors = TensorFactors;
  static constexpr bool kTensor = true;
  static constexpr int kColumns = Tile::kColumns;
  static constexpr int kUnit = Pack<T>::kCount;
  static constexpr int kWords = TensorFactors::kWords;
  static constexpr int kElements = TensorWord<T>::kElements;
  static constexpr int kDepth = kWords * kElements;
  static constexpr int kAcross = 4;  // products of 8 columns of a warp
  static constexpr int kRun = 2;
  static constexpr int kWarpColumns = 8 * kAcross, kWarpsAcross = Tile::kColumns / kWarpColumns;
  static_assert(Tile::kRows * kWarpsAcross == 16 * Tile::kThreads / 32, "all of a tile");

  using Sums = WarpSums<1, kAcross>;

  template <Along along, class Side>
  static void store(Side& side, const Unit& unit, const float* values) {
    if constexpr (along == Along::Side) {
      for (int v = 0; v < kUnit; ++v) TensorWord<T>::put(side[unit.i + v], unit.d, values[v]);
    } else {
      constexpr int kCount = Pack<uint32_t>::kCount;
      static_assert(kUnit == kCount * kElements, "a pack of words");
      Pack<uint32_t> pack;
      for (int w = 0; w < kCount; ++w) {
        pack.at[w] = TensorWord<T>::of([&](int e) { return values[w * kElements + e]; });
      }
      *reinterpret_cast<Pack<uint32_t>*>(&side[unit.i][unit.d / kElements]) = pack;
    }
  }

  template <class B, class AllSums>
  static void multiply(const B& block, const TensorFactors& factors, AllSums& sums) {
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
  static void each_run(int thread, const Sums& sums, const Use& use) {
    const int lane = thread % 32;
    for (int i = 0; i < 4; i += kRun) {
      for (int j = 0; j < kAcross; ++j) {
        use(row_of(thread) + sum_row(lane, i), column_of(thread) + 8 * j + sum_column(lane, i),
            &sums.at[0][j][i]);
      }
    }
  }

  // Where the elements of a thread's warp are in the tile.
  static int row_of(int thread) { return thread / 32 / kWarpsAcross * 16; }
  static int column_of(int thread) { return thread / 32 % kWarpsAcross * kWarpColumns; }
};

// The unit of a thread; neighbouring threads have neighbouring units.
template <class Product, Along along, int side>
Unit unit_of(int thread) {
  constexpr int kUnit = Product::kUnit;
  constexpr int kAcross = (along == Along::Side ? side : Product::kDepth) / kUnit;
  constexpr int kUnits = side * Product::kDepth / kUnit;
  static_assert(kUnits <= Tile::kThreads, "a unit of each thread");
  const int first = thread % kAcross * kUnit, second = thread / kAcross;
  const bool exists = thread < kUnits;
  return along == Along::Side ? Unit{second, first, exists} : Unit{first, second, exists};
}

// Adds the product of two factors with `depth` rows, which Left and Right copy: load(d, i), for a
// unit with d < depth, returns what is read from memory; values(what, d, i, values) turns it into
// numbers. Both may read shared memory, which must not change until the end.
template <class A, class Product, class B, class Left, class Right, class Sums>
void add_product(const B& block, typename Product::Factors* factors, int32_t depth,
                 const Left& left, const Right& right, Sums& sums) {
  struct Staged {
    typename Left::Loaded left;
    typename Right::Loaded right;
  };
  constexpr int kDepth = Product::kDepth, kUnit = Product::kUnit;
  PerThread<Staged, B::kThreads> staged;
  const auto load = [&](int thread, int32_t first) {
    const Unit l = unit_of<Product, Left::kAlong, Tile::kRows>(thread);
    const Unit r = unit_of<Product, Right::kAlong, Product::kColumns>(thread);
    if (l.exists) staged[thread].left = left.load(first + l.d, l.i, first + l.d < depth);
    if (r.exists) staged[thread].right = right.load(first + r.d, r.i, first + r.d < depth);
  };
  const auto store = [&](int thread, int32_t first, typename Product::Factors& to) {
    const Unit l = unit_of<Product, Left::kAlong, Tile::kRows>(thread);
    const Unit r = unit_of<Product, Right::kAlong, Product::kColumns>(thread);
    A values[kUnit];
    if (l.exists) {
      left.values(staged[thread].left, first + l.d, l.i, first + l.d < depth, values);
      Product::template store<Left::kAlong>(to.left, l, values);
    }
    if (r.exists) {
      right.values(staged[thread].right, first + r.d, r.i, first + r.d < depth, values);
      Product::template store<Right::kAlong>(to.right, r, values);
    }
  };
  if (depth <= 0) return;
  block.each([&](int thread) {
    load(thread, 0);
    store(thread, 0, factors[0]);
  });
  int now = 0;
  for (int32_t first = 0; first < depth; first += kDepth) {
    const int32_t next = first + kDepth;
    const bool more = next < depth;
    if (more) block.begin([&](int thread) { load(thread, next); });
    Product::multiply(block, factors[now], sums);
    now = 1 - now;
    block.each([&](int thread) {
      if (more) store(thread, next, factors[now]);
    });
  }
}

}  // namespace myops::deform_kernels
