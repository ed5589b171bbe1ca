// deform_conv2d on CUDA: Y(o, p) = B(o) + the sum over c and k of W(o, c, k) A(c, k, p). No matrix
// of columns is stored. The double backward has two such terms, one with A'.
#pragma once

#include "deform_conv2d/cuda/positions.h"
#include "deform_conv2d/cuda/tile_product.h"

namespace myops {

struct DeformTerm {
  DeformTensor W;
  int32_t column;  // see Column
};

struct DeformForward {
  static constexpr int kOutputs = 8;  // that a thread of deform_direct makes
  static constexpr int kThreads = deform_kernels::Tile::kThreads;
  DeformInputs inputs;
  DeformTerm terms[2];
  int32_t term_count;
  const void* bias;  // null: none
  int64_t bias_stride;
  DeformResult Y;
};

namespace deform_kernels {

// The number of elements for which deform_direct is launched, and that of blocks of deform_tile.
inline int64_t direct_runs(const DeformSizes& sizes) {
  return sizes.groups * tiles(outputs_of(sizes), DeformForward::kOutputs);
}
inline int64_t direct_threads(const DeformSizes& sizes) {
  return sizes.batch * direct_runs(sizes) * pixels(sizes);
}
inline int64_t forward_blocks(const DeformSizes& sizes) {
  return sizes.groups * tiles(outputs_of(sizes), Tile::kRows) *
         tiles(sizes.batch * pixels(sizes), Tile::kColumns);
}

template <class T, class A>
void write_output(const DeformForward& arguments, int64_t n, int64_t o, int64_t pixel, A sum) {
  if (arguments.bias != nullptr) {
    sum += static_cast<A>(static_cast<const T*>(arguments.bias)[o * arguments.bias_stride]);
  }
  const int64_t width = arguments.inputs.sizes.out_width;
  write<T, A>(arguments.Y, n, o, pixel / width, pixel % width, sum);
}

// Calls visit(offset group, first channel, end) for the parts of a weight group whose channels have
// equal offsets.
template <class Visit>
void each_offset_group(const DeformSizes& sizes, int64_t group, const Visit& visit) {
  const int64_t begin = group * channels_of(sizes), end = begin + channels_of(sizes);
  if (begin == end) return;
  for (int64_t g = begin / sharing(sizes); g * sharing(sizes) < end; ++g) {
    visit(g, larger(g * sharing(sizes), begin), smaller((g + 1) * sharing(sizes), end));
  }
}

}  // namespace deform_kernels

// Few outputs in a group: a thread makes kOutputs of one pixel, so that each sample is computed
// once for these.
template <class T, class A>
void deform_direct(const DeformForward& arguments, int64_t i) {
  constexpr int kOutputs = DeformForward::kOutputs;
  const DeformSizes& sizes = arguments.inputs.sizes;
  const int64_t pixels = deform_kernels::pixels(sizes), pixel = i % pixels;
  const int64_t all_runs = deform_kernels::direct_runs(sizes);
  const int64_t run = i / pixels % all_runs, n = i / pixels / all_runs;
  const int64_t each = deform_kernels::outputs_of(sizes), runs = all_runs / sizes.groups;
  const int64_t group = run / runs, first = group * each + run % runs * kOutputs;
  const int64_t count = smaller<int64_t>(kOutputs, (group + 1) * each - first);
  const int64_t begin = group * deform_kernels::channels_of(sizes);
  A sums[kOutputs] = {};
  for (int term = 0; term < arguments.term_count; ++term) {
    const DeformTerm& of = arguments.terms[term];
    deform_kernels::each_offset_group(sizes, group, [&](int64_t g, int64_t from, int64_t to) {
      for (int64_t k = 0; k < sizes.taps; ++k) {
        const auto at = deform_kernels::sampler<T, A>(arguments.inputs, of.column, n, g, k, pixel);
        for (int64_t c = from; c < to; ++c) {
          const A value = deform_kernels::sample<T, A>(arguments.inputs, of.column, n, c, at);
          for (int o = 0; o < kOutputs; ++o) {
            if (o >= count) break;
            const A w = deform_kernels::read_weight<T, A>(sizes, of.W, first + o, c - begin, k);
            sums[o] = std::fma(w, value, sums[o]);
          }
        }
      }
    });
  }
  for (int o = 0; o < kOutputs; ++o) {
    if (o < count) deform_kernels::write_output<T, A>(arguments, n, first + o, pixel, sums[o]);
  }
}

// Many outputs in a group: rows of the product are outputs, columns are pixels of all images.
template <class A, class Factors>
struct ForwardParts {
  Factors factors;
  deform_kernels::Sampler<A> samplers[deform_kernels::Tile::kColumns];  // of the columns
};
template <class A>
using ForwardShared = ForwardParts<A, deform_kernels::FmaFactors<A>>;
template <class A>
using ForwardTensorShared = ForwardParts<A, deform_kernels::TensorFactors>;

template <class T, class A, class Product, class B, class Shared>
void deform_product(const DeformForward& arguments, const B& block, int64_t i, Shared& shared) {
  using deform_kernels::Tile;
  const DeformSizes& sizes = arguments.inputs.sizes;
  const int64_t each = deform_kernels::outputs_of(sizes), pixels = deform_kernels::pixels(sizes);
  const int64_t row_tiles = deform_kernels::tiles(each, Tile::kRows);
  const int64_t group = i / row_tiles % sizes.groups;
  const int64_t row = i % row_tiles * Tile::kRows, first_output = group * each + row;
  const int64_t first = i / row_tiles / sizes.groups * Tile::kColumns;
  const int64_t rows = each - row, columns = sizes.batch * pixels - first;
  const int64_t begin = group * deform_kernels::channels_of(sizes);
  PerThread<typename Product::Sums, B::kThreads> sums;
  for (int term = 0; term < arguments.term_count; ++term) {
    const DeformTerm& of = arguments.terms[term];
    deform_kernels::each_offset_group(sizes, group, [&](int64_t g, int64_t from, int64_t to) {
      for (int64_t k = 0; k < sizes.taps; ++k) {
        block.each([&](int thread) {
          if (thread >= Tile::kColumns || thread >= columns) return;
          const int64_t n = (first + thread) / pixels, pixel = (first + thread) % pixels;
          shared.samplers[thread] =
              deform_kernels::sampler<T, A>(arguments.inputs, of.column, n, g, k, pixel);
        });
        for (int64_t channel = from; channel < to; channel += Product::kDepth) {
          const int depth = static_cast<int>(smaller<int64_t>(Product::kDepth, to - channel));
          block.each([&](int thread) {
            Product::fill_left(shared.factors, thread, depth, true, [&](int d, int r) {
              return r < rows ? deform_kernels::read_weight<T, A>(sizes, of.W, first_output + r,
                                                                  channel + d - begin, k)
                              : A(0);
            });
            Product::fill_right(shared.factors, thread, depth, false, [&](int d, int c) {
              return c < columns ? deform_kernels::sample<T, A>(arguments.inputs, of.column,
                                                                (first + c) / pixels, channel + d,
                                                                shared.samplers[c])
                                 : A(0);
            });
          });
          Product::multiply(block, shared.factors, depth, sums);
        }
      }
    });
  }
  block.each([&](int thread) {
    Product::each_sum(thread, sums[thread], rows, columns, [&](int r, int c, A sum) {
      deform_kernels::write_output<T, A>(arguments, (first + c) / pixels, first_output + r,
                                         (first + c) % pixels, sum);
    });
  });
}

template <class T, class A, class B>
void deform_tile(const DeformForward& arguments, const B& block, int64_t i,
                 ForwardShared<A>& shared) {
  deform_product<T, A, deform_kernels::FmaProduct<A>>(arguments, block, i, shared);
}
template <class T, class A, class B>
void deform_tensor(const DeformForward& arguments, const B& block, int64_t i,
                   ForwardTensorShared<A>& shared) {
  deform_product<T, A, deform_kernels::TensorProduct<T>>(arguments, block, i, shared);
}

}  // namespace myops

#ifndef MYOPS_DEFORM_TENSOR  // forward_tensor.h has the other kernel
MYOPS_KERNEL(deform_direct, DeformForward, deform_direct)
MYOPS_BLOCK_KERNEL(deform_tile, DeformForward, ForwardShared, deform_tile)
#endif
