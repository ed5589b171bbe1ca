// The gradient of W: the sum over the pixels of G A, or of G A' in the double backward. The pixels
// of all images are divided into slices, whose sums are computed separately and then added in
// order.
#pragma once

#include "deform_conv2d/cuda/positions.h"
#include "deform_conv2d/cuda/tile_product.h"

namespace myops {

struct DeformWeights {
  static constexpr int kOutputs = 8;  // that a thread of weights_direct makes
  static constexpr int kThreads = deform_kernels::Tile::kThreads;
  static constexpr int64_t kTogether = 256;  // pixels that are summed before they are added: the
                                             // error of a sum grows with the number of its terms
  DeformInputs inputs;
  DeformTensor grad;
  int32_t column;  // see Column
  int64_t slices;
  void* sums;  // [slices, outputs, channels / groups, taps], of type A
  DeformResult grad_W;
};

namespace deform_kernels {

inline int64_t weights_of(const DeformSizes& sizes) {
  return sizes.outputs * channels_of(sizes) * sizes.taps;
}
inline int64_t weight_runs(const DeformSizes& sizes) {
  return sizes.groups * tiles(outputs_of(sizes), DeformWeights::kOutputs);
}
// The number of elements for which weights_direct is launched, and that of blocks of weights_tile.
inline int64_t weight_threads(const DeformWeights& arguments) {
  const DeformSizes& sizes = arguments.inputs.sizes;
  return arguments.slices * weight_runs(sizes) * channels_of(sizes) * sizes.taps;
}
inline int64_t weight_blocks(const DeformWeights& arguments) {
  const DeformSizes& sizes = arguments.inputs.sizes;
  return arguments.slices * sizes.groups * tiles(outputs_of(sizes), Tile::kRows) *
         tiles(channels_of(sizes) * sizes.taps, Tile::kColumns);
}

struct Slice {
  int64_t begin, end;  // of the pixels of all images
};
inline Slice slice_of(const DeformWeights& arguments, int64_t slice) {
  const int64_t all = arguments.inputs.sizes.batch * pixels(arguments.inputs.sizes);
  const int64_t length = tiles(all, arguments.slices), begin = smaller(slice * length, all);
  return {begin, smaller(begin + length, all)};
}

// G of an output and a pixel of all images.
template <class T, class A>
A grad_at(const DeformWeights& arguments, int64_t o, int64_t p) {
  const DeformSizes& sizes = arguments.inputs.sizes;
  const int64_t n = p / pixels(sizes), pixel = p % pixels(sizes);
  return read<T, A>(arguments.grad, n, o, pixel / sizes.out_width, pixel % sizes.out_width);
}

// A or A' of a channel, a tap and a pixel of all images.
template <class T, class A>
A sample_at(const DeformWeights& arguments, int64_t channel, int64_t tap, int64_t p) {
  const DeformSizes& sizes = arguments.inputs.sizes;
  const int64_t n = p / pixels(sizes), pixel = p % pixels(sizes);
  const auto at =
      sampler<T, A>(arguments.inputs, arguments.column, n, channel / sharing(sizes), tap, pixel);
  return sample<T, A>(arguments.inputs, arguments.column, n, channel, at);
}

// Where a slice has the sum of a weight; `weight` is channel of the group * taps + tap.
template <class A>
A& slice_sum(const DeformWeights& arguments, int64_t slice, int64_t o, int64_t weight) {
  const DeformSizes& sizes = arguments.inputs.sizes;
  return static_cast<A*>(
      arguments.sums)[(slice * sizes.outputs + o) * channels_of(sizes) * sizes.taps + weight];
}

}  // namespace deform_kernels

// Few outputs in a group: the sums over one slice, for kOutputs outputs and one weight of each.
template <class T, class A>
void weights_direct(const DeformWeights& arguments, int64_t i) {
  constexpr int kOutputs = DeformWeights::kOutputs;
  const DeformSizes& sizes = arguments.inputs.sizes;
  const int64_t channels = deform_kernels::channels_of(sizes), row = channels * sizes.taps;
  const int64_t each = deform_kernels::outputs_of(sizes), weight = i % row;
  const int64_t all_runs = deform_kernels::weight_runs(sizes), runs = all_runs / sizes.groups;
  const int64_t run = i / row % all_runs, slice = i / row / all_runs;
  const int64_t group = run / runs, first = group * each + run % runs * kOutputs;
  const int64_t count = smaller<int64_t>(kOutputs, (group + 1) * each - first);
  const int64_t channel = group * channels + weight / sizes.taps;
  const deform_kernels::Slice pixels = deform_kernels::slice_of(arguments, slice);
  A totals[kOutputs] = {};
  for (int64_t begin = pixels.begin; begin < pixels.end; begin += DeformWeights::kTogether) {
    const int64_t end = smaller(begin + DeformWeights::kTogether, pixels.end);
    A sums[kOutputs] = {};
    for (int64_t p = begin; p < end; ++p) {
      const A value = deform_kernels::sample_at<T, A>(arguments, channel, weight % sizes.taps, p);
      for (int o = 0; o < kOutputs; ++o) {
        if (o >= count) break;
        sums[o] = std::fma(deform_kernels::grad_at<T, A>(arguments, first + o, p), value, sums[o]);
      }
    }
    for (int o = 0; o < kOutputs; ++o) totals[o] += sums[o];
  }
  for (int o = 0; o < kOutputs; ++o) {
    if (o >= count) break;
    deform_kernels::slice_sum<A>(arguments, slice, first + o, weight) = totals[o];
  }
}

// Many outputs in a group: rows of the product are outputs, columns are weights of one output.
template <class Factors>
struct WeightsParts {
  Factors factors;
};
template <class A>
using WeightsShared = WeightsParts<deform_kernels::FmaFactors<A>>;
template <class A>
using WeightsTensorShared = WeightsParts<deform_kernels::TensorFactors>;

template <class T, class A, class Product, class B, class Shared>
void weights_product(const DeformWeights& arguments, const B& block, int64_t i, Shared& shared) {
  using deform_kernels::Tile;
  using Sums = typename Product::Sums;
  const DeformSizes& sizes = arguments.inputs.sizes;
  const int64_t channels = deform_kernels::channels_of(sizes);
  const int64_t each = deform_kernels::outputs_of(sizes);
  const int64_t row_tiles = deform_kernels::tiles(each, Tile::kRows);
  const int64_t column_tiles = deform_kernels::tiles(channels * sizes.taps, Tile::kColumns);
  const int64_t first_row = i % row_tiles * Tile::kRows;
  const int64_t first = i / row_tiles % column_tiles * Tile::kColumns;
  const int64_t group = i / row_tiles / column_tiles % sizes.groups;
  const int64_t slice = i / row_tiles / column_tiles / sizes.groups;
  const int64_t rows = each - first_row, columns = channels * sizes.taps - first;
  const deform_kernels::Slice pixels = deform_kernels::slice_of(arguments, slice);
  PerThread<Sums, B::kThreads> totals;
  for (int64_t begin = pixels.begin; begin < pixels.end; begin += DeformWeights::kTogether) {
    const int64_t end = smaller(begin + DeformWeights::kTogether, pixels.end);
    PerThread<Sums, B::kThreads> sums;
    for (int64_t p = begin; p < end; p += Product::kDepth) {
      const int depth = static_cast<int>(smaller<int64_t>(Product::kDepth, end - p));
      block.each([&](int thread) {
        Product::fill_left(shared.factors, thread, depth, true, [&](int d, int r) {
          const int64_t o = group * each + first_row + r;
          return r < rows ? deform_kernels::grad_at<T, A>(arguments, o, p + d) : A(0);
        });
        Product::fill_right(shared.factors, thread, depth, true, [&](int d, int c) {
          const int64_t channel = group * channels + (first + c) / sizes.taps;
          return c < columns ? deform_kernels::sample_at<T, A>(arguments, channel,
                                                               (first + c) % sizes.taps, p + d)
                             : A(0);
        });
      });
      Product::multiply(block, shared.factors, depth, sums);
    }
    block.each([&](int thread) { totals[thread].add(sums[thread]); });
  }
  block.each([&](int thread) {
    Product::each_sum(thread, totals[thread], rows, columns, [&](int r, int c, A sum) {
      deform_kernels::slice_sum<A>(arguments, slice, group * each + first_row + r, first + c) = sum;
    });
  });
}

template <class T, class A, class B>
void weights_tile(const DeformWeights& arguments, const B& block, int64_t i,
                  WeightsShared<A>& shared) {
  weights_product<T, A, deform_kernels::FmaProduct<A>>(arguments, block, i, shared);
}
template <class T, class A, class B>
void weights_tensor(const DeformWeights& arguments, const B& block, int64_t i,
                    WeightsTensorShared<A>& shared) {
  weights_product<T, A, deform_kernels::TensorProduct<T>>(arguments, block, i, shared);
}

// Adds the slices of an element of W.
template <class T, class A>
void add_slices(const DeformWeights& arguments, int64_t i) {
  const DeformSizes& sizes = arguments.inputs.sizes;
  const int64_t row = deform_kernels::channels_of(sizes) * sizes.taps;
  const int64_t o = i / row, c = i % row / sizes.taps, k = i % sizes.taps;
  A sum = 0;
  for (int64_t slice = 0; slice < arguments.slices; ++slice) {
    sum += deform_kernels::slice_sum<A>(arguments, slice, o, i % row);
  }
  deform_kernels::write<T, A>(arguments.grad_W, o, c, k / sizes.kernel_width,
                              k % sizes.kernel_width, sum);
}

}  // namespace myops

#ifndef MYOPS_DEFORM_TENSOR  // weights_tensor.h has the other kernel
MYOPS_KERNEL(weights_direct, DeformWeights, weights_direct)
MYOPS_BLOCK_KERNEL(weights_tile, DeformWeights, WeightsShared, weights_tile)
#endif
MYOPS_KERNEL(add_slices, DeformWeights, add_slices)
