// T(c, k, p) = the sum over o of W(o, c, k) G(o, p), of some channels at a time ("rows" n * C + c).
// The same with W' makes T'.
#pragma once

#include "deform_conv2d/cuda/positions.h"
#include "deform_conv2d/cuda/tile_product.h"

namespace myops {

struct DeformTransposed {
  static constexpr int kThreads = deform_kernels::Tile::kThreads;
  DeformSizes sizes;
  DeformTensor grad, W;
  int64_t first_row, rows;
  void* products;  // [rows, taps, pixels], of type A
};

namespace deform_kernels {

// Rows of the tiles of an image and a weight group ("segment") are (channel, tap), columns pixels.
inline int64_t segment_tiles(const DeformSizes& sizes) {
  return tiles(channels_of(sizes) * sizes.taps, Tile::kRows) * tiles(pixels(sizes), Tile::kColumns);
}
inline int64_t transposed_blocks(const DeformTransposed& arguments) {
  const int64_t channels = channels_of(arguments.sizes);
  const int64_t last = (arguments.first_row + arguments.rows - 1) / channels;
  return (last - arguments.first_row / channels + 1) * segment_tiles(arguments.sizes);
}

}  // namespace deform_kernels

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

// Many outputs in a group.
template <class Factors>
struct TransposedParts {
  Factors factors;
};
template <class A>
using TransposedShared = TransposedParts<deform_kernels::FmaFactors<A>>;
template <class A>
using TransposedTensorShared = TransposedParts<deform_kernels::TensorFactors>;

template <class T, class A, class Product, class B, class Shared>
void transposed_product(const DeformTransposed& arguments, const B& block, int64_t i,
                        Shared& shared) {
  using deform_kernels::Tile;
  const DeformSizes& sizes = arguments.sizes;
  const int64_t pixels = deform_kernels::pixels(sizes), taps = sizes.taps;
  const int64_t channels = deform_kernels::channels_of(sizes);
  const int64_t each = deform_kernels::outputs_of(sizes);
  const int64_t column_tiles = deform_kernels::tiles(pixels, Tile::kColumns);
  const int64_t of_segment = deform_kernels::segment_tiles(sizes);
  const int64_t segment = arguments.first_row / channels + i / of_segment;
  const int64_t n = segment / sizes.groups, group = segment % sizes.groups;
  const int64_t first_pixel = i % column_tiles * Tile::kColumns;
  const int64_t first = i % of_segment / column_tiles * Tile::kRows;  // channel * taps + tap
  const int64_t rows = channels * taps - first, columns = pixels - first_pixel;
  PerThread<typename Product::Sums, B::kThreads> sums;
  for (int64_t o = 0; o < each; o += Product::kDepth) {
    const int depth = static_cast<int>(smaller<int64_t>(Product::kDepth, each - o));
    block.each([&](int thread) {
      Product::fill_left(shared.factors, thread, depth, false, [&](int d, int r) {
        return r < rows
                   ? deform_kernels::read_weight<T, A>(sizes, arguments.W, group * each + o + d,
                                                       (first + r) / taps, (first + r) % taps)
                   : A(0);
      });
      Product::fill_right(shared.factors, thread, depth, false, [&](int d, int c) {
        const int64_t pixel = first_pixel + c;
        return c < columns
                   ? deform_kernels::read<T, A>(arguments.grad, n, group * each + o + d,
                                                pixel / sizes.out_width, pixel % sizes.out_width)
                   : A(0);
      });
    });
    Product::multiply(block, shared.factors, depth, sums);
  }
  block.each([&](int thread) {
    Product::each_sum(thread, sums[thread], rows, columns, [&](int r, int c, A sum) {
      const int64_t row = segment * channels + (first + r) / taps - arguments.first_row;
      if (row < 0 || row >= arguments.rows) return;  // of another pass
      static_cast<A*>(
          arguments.products)[(row * taps + (first + r) % taps) * pixels + first_pixel + c] = sum;
    });
  });
}

template <class T, class A, class B>
void transposed_tile(const DeformTransposed& arguments, const B& block, int64_t i,
                     TransposedShared<A>& shared) {
  transposed_product<T, A, deform_kernels::FmaProduct<A>>(arguments, block, i, shared);
}
template <class T, class A, class B>
void transposed_tensor(const DeformTransposed& arguments, const B& block, int64_t i,
                       TransposedTensorShared<A>& shared) {
  transposed_product<T, A, deform_kernels::TensorProduct<T>>(arguments, block, i, shared);
}

}  // namespace myops

#ifndef MYOPS_DEFORM_TENSOR  // transposed_tensor.h has the other kernel
MYOPS_KERNEL(transposed_direct, DeformTransposed, transposed_direct)
MYOPS_BLOCK_KERNEL(transposed_tile, DeformTransposed, TransposedShared, transposed_tile)
#endif
