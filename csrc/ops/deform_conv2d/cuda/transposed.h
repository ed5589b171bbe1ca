// T(c, k, p) = the sum over o of W(o, c, k) G(o, p), of some channels at a time ("rows" n * C + c).
// The same with W' makes T'.
#pragma once

#include "deform_conv2d/cuda/samples.h"

namespace myops {

struct DeformTransposed {
  DeformSizes sizes;
  DeformTensor grad, W;
  int64_t first_row, rows;
  void* products;  // [rows, taps, pixels], of type A
};

// Few outputs in a group: one element of T.
template <class T, class A>
void transposed_direct(const DeformTransposed& arguments, int64_t i) {
  const DeformSizes& sizes = arguments.sizes;
  const int64_t pixels = deform_kernels::pixels(sizes), pixel = i % pixels;
  const int64_t k = i / pixels % sizes.taps, row = arguments.first_row + i / pixels / sizes.taps;
  const int64_t n = row / sizes.channels, c = row % sizes.channels;
  const int64_t channels = deform_kernels::channels_of(sizes);
  const int64_t each = deform_kernels::outputs_of(sizes), group = c / channels;
  A sum = 0;
  for (int64_t o = group * each; o < (group + 1) * each; ++o) {
    const A w = deform_kernels::read_weight<T, A>(sizes, arguments.W, o, c % channels, k);
    const A g = deform_kernels::read<T, A>(arguments.grad, n, o, pixel / sizes.out_width,
                                           pixel % sizes.out_width);
    sum = std::fma(w, g, sum);
  }
  static_cast<A*>(arguments.products)[i] = sum;
}

// Many outputs in a group: rows of the product are pixels of an image, columns those of a block of
// channels, tap * channels of the block + channel. A row of products ("row" n * blocks + block) is
// [padded pixels, columns].
struct DeformTransposedTile {
  static constexpr int kThreads = deform_kernels::Tile::kThreads, kBlocks = 4;
  DeformShape shape;
  const void* grad;  // [batch, outputs, pixels] with strides
  int64_t image_stride, output_stride;
  const void* W;  // packed
  int32_t blocks_of_group, all_blocks, columns;
  int32_t pixel_tiles, column_tiles;
  int32_t first_row, rows;
  void* products;  // of type A
};

namespace deform_kernels {

inline int64_t transposed_blocks(const DeformTransposedTile& arguments) {
  return int64_t{arguments.rows} * arguments.pixel_tiles * arguments.column_tiles;
}

}  // namespace deform_kernels

template <class Factors>
struct TransposedParts {
  Factors factors[2];
};
template <class A>
using TransposedShared =
    TransposedParts<deform_kernels::FmaFactors<A, deform_kernels::Tile::kColumns>>;
template <class A>
using TransposedTensorShared = TransposedParts<deform_kernels::TensorFactors>;

template <class T, class A, class Product, class B, class Shared>
void transposed_product(const DeformTransposedTile& arguments, const B& block, int64_t i,
                        Shared& shared) {
  using deform_kernels::Along;
  using deform_kernels::PackLoader;
  using deform_kernels::Tile;
  const DeformShape& shape = arguments.shape;
  const auto tile = static_cast<uint32_t>(i);
  const auto pixel_tiles = static_cast<uint32_t>(arguments.pixel_tiles);
  const auto column_tiles = static_cast<uint32_t>(arguments.column_tiles);
  const auto first = static_cast<int32_t>(tile % column_tiles) * Tile::kColumns;
  const auto pixel = static_cast<int32_t>(tile / column_tiles % pixel_tiles) * Tile::kRows;
  const auto row = static_cast<int32_t>(tile / column_tiles / pixel_tiles);
  const int32_t n = (arguments.first_row + row) / arguments.all_blocks;
  const int32_t of_image = arguments.first_row + row - n * arguments.all_blocks;
  const int32_t group = of_image / arguments.blocks_of_group, columns = arguments.columns;
  PerThread<typename Product::Sums, B::kThreads> sums;
  const PackLoader<T, A, Along::Side> left{
      static_cast<const T*>(arguments.grad) + n * arguments.image_stride +
          group * shape.outputs * arguments.output_stride + pixel,
      arguments.output_stride, shape.padded_pixels - pixel};
  const T* W =
      static_cast<const T*>(arguments.W) + int64_t{of_image} * shape.padded_outputs * columns;
  if constexpr (Product::kTensor) {
    const PackLoader<T, A, Along::Depth> right{W + int64_t{first} * shape.padded_outputs,
                                               shape.padded_outputs, columns - first};
    deform_kernels::add_product<A, Product>(block, shared.factors, shape.outputs, left, right,
                                            sums);
  } else {
    const PackLoader<T, A, Along::Side> right{W + first, columns, columns - first};
    deform_kernels::add_product<A, Product>(block, shared.factors, shape.outputs, left, right,
                                            sums);
  }
  block.begin([&](int thread) {
    Product::each_run(thread, sums[thread], [&](int r, int c, const A* run) {
      constexpr int kRun = Product::kRun;
      // Columns are padded to packs of T; half a run may be outside.
      if (pixel + r >= shape.padded_pixels || first + c >= columns) return;
      A* to = static_cast<A*>(arguments.products) +
              (int64_t{row} * shape.padded_pixels + pixel + r) * columns + first + c;
      if (first + c + kRun <= columns) {
        deform_kernels::Run<A, kRun> whole;
        for (int v = 0; v < kRun; ++v) whole.at[v] = run[v];
        *reinterpret_cast<deform_kernels::Run<A, kRun>*>(to) = whole;
      } else {
        for (int v = 0; v < kRun && first + c + v < columns; ++v) to[v] = run[v];
      }
    });
  });
}

template <class T, class A, class B>
void transposed_tile(const DeformTransposedTile& arguments, const B& block, int64_t i,
                     TransposedShared<A>& shared) {
  transposed_product<T, A, deform_kernels::FmaProduct<T, A>>(arguments, block, i, shared);
}
template <class T, class A, class B>
void transposed_tensor(const DeformTransposedTile& arguments, const B& block, int64_t i,
                       TransposedTensorShared<A>& shared) {
  transposed_product<T, A, deform_kernels::TensorProduct<T>>(arguments, block, i, shared);
}

}  // namespace myops

#ifndef MYOPS_DEFORM_VARIANT  // transposed_tensor.h has the other kernel
MYOPS_KERNEL(transposed_direct, DeformTransposed, transposed_direct)
MYOPS_BLOCK_KERNEL(transposed_tile, DeformTransposedTile, TransposedShared, transposed_tile)
#endif
