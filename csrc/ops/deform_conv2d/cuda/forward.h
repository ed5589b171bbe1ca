// deform_conv2d on CUDA: Y(o, p) = B(o) + the sum over c and k of W(o, c, k) A(c, k, p). No matrix
// of columns is stored. The double backward has such terms with A' too.
#pragma once

#include "deform_conv2d/cuda/samples.h"

namespace myops {

struct DeformTerm {
  DeformTensor W;
  int32_t column;  // see Column
};

struct DeformForward {
  static constexpr int kOutputs = 8;  // that a thread of deform_direct makes
  DeformInputs inputs;
  DeformTerm terms[2];
  int32_t term_count;
  const void* bias;  // null: none
  int64_t bias_stride;
  DeformResult Y;
};

namespace deform_kernels {

// The number of elements for which deform_direct is launched.
inline int64_t direct_runs(const DeformSizes& sizes) {
  return sizes.groups * tiles(outputs_of(sizes), DeformForward::kOutputs);
}
inline int64_t direct_threads(const DeformSizes& sizes) {
  return sizes.batch * direct_runs(sizes) * pixels(sizes);
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
struct DeformTileTerm {
  const void *W, *X;  // packed
  int32_t weights;    // see Weights
};
struct DeformForwardTile {
  static constexpr int kThreads = deform_kernels::Tile::kThreads, kBlocks = 4;
  static constexpr int kNarrow = 32;  // columns of the tiles of deform_narrow
  DeformInputs inputs;
  DeformShape shape;
  DeformTileTerm terms[3];
  int32_t term_count;
  int32_t row_tiles;
  bool whole;  // four neighbouring pixels of Y can be written together
  const void* bias;
  int64_t bias_stride;
  DeformResult Y;
};

namespace deform_kernels {

// In tiles of so many columns.
inline int64_t forward_blocks(const DeformShape& shape, int64_t columns) {
  return shape.groups * tiles(shape.outputs, Tile::kRows) *
         tiles(int64_t{shape.batch} * shape.padded_pixels, columns);
}

// `count` neighbouring sums of an output, from pixel p of all images on.
template <class T, class A, int count>
void write_outputs(const DeformForwardTile& arguments, int32_t o, int32_t p, const A* sums) {
  const DeformShape& shape = arguments.shape;
  const bool biased = arguments.bias != nullptr;
  const A bias =
      biased ? static_cast<A>(static_cast<const T*>(arguments.bias)[o * arguments.bias_stride]) : 0;
  const auto result = [&](int v) { return static_cast<T>(biased ? sums[v] + bias : sums[v]); };
  const int64_t* stride = arguments.Y.stride;
  T* to = static_cast<T*>(arguments.Y.data) + o * stride[1];
  if (arguments.whole) {
    const Pixel at = pixel_of(shape, p);
    if (at.n >= shape.batch) return;
    Run<T, count> run;
    for (int v = 0; v < count; ++v) run.at[v] = result(v);
    *reinterpret_cast<Run<T, count>*>(to + at.n * stride[0] + at.pixel) = run;
    return;
  }
  for (int v = 0; v < count; ++v) {
    const Pixel at = pixel_of(shape, p + v);
    if (at.n >= shape.batch || at.pixel >= shape.pixels) continue;
    const RowColumn place = row_column(shape, at.pixel);
    to[at.n * stride[0] + place.row * stride[2] + place.column * stride[3]] = result(v);
  }
}

}  // namespace deform_kernels

template <class A>
using ForwardShared =
    deform_kernels::SampledParts<A, deform_kernels::FmaFactors<A, deform_kernels::Tile::kColumns>>;
template <class A>
using ForwardNarrowShared =
    deform_kernels::SampledParts<A, deform_kernels::FmaFactors<A, DeformForwardTile::kNarrow>>;
template <class A>
using ForwardTensorShared = deform_kernels::SampledParts<A, deform_kernels::TensorFactors>;

template <class T, class A, class Product, class B, class Shared>
void deform_product(const DeformForwardTile& arguments, const B& block, int64_t i, Shared& shared) {
  using deform_kernels::Along;
  using deform_kernels::Tile;
  constexpr int kTaps =
      Shared::kSamplers / Product::kColumns;  // whose samplers are stored at a time
  const DeformShape& shape = arguments.shape;
  const auto tile = static_cast<uint32_t>(i),
             row_tiles = static_cast<uint32_t>(arguments.row_tiles);
  const auto groups = static_cast<uint32_t>(shape.groups);
  const auto row = static_cast<int32_t>(tile % row_tiles) * Tile::kRows;
  const auto group = static_cast<int32_t>(tile / row_tiles % groups);
  const auto first = static_cast<int32_t>(tile / row_tiles / groups) * Product::kColumns;
  const int32_t columns = shape.columns();
  PerThread<typename Product::Sums, B::kThreads> sums;
  for (int term = 0; term < arguments.term_count; ++term) {
    const DeformTileTerm& of = arguments.terms[term];
    for (int32_t p = 0; p < shape.parts_of_group; ++p) {
      const int32_t part = group * shape.parts_of_group + p;
      const T* W = static_cast<const T*>(of.W) + int64_t{part} * shape.padded_outputs * columns;
      for (int32_t tap = 0; tap < shape.taps; tap += kTaps) {
        const int32_t taps = smaller(kTaps, shape.taps - tap);
        block.each([&](int thread) {
          for (int e = thread; e < taps * Product::kColumns; e += B::kThreads) {
            const auto at = deform_kernels::pixel_of(shape, first + e % Product::kColumns);
            shared.samplers[e] = deform_kernels::taken_if<T, A>(
                arguments.inputs, shape, of.weights, at, part, tap + e / Product::kColumns);
          }
        });
        const int32_t q = tap * shape.padded_channels;
        const deform_kernels::SampleLoader<T, A, Along::Depth> right{
            &shape, of.X, shared.samplers, Product::kColumns, 0, 0};
        const int32_t depth = taps * shape.padded_channels;
        if constexpr (Product::kTensor) {
          const deform_kernels::PackLoader<T, A, Along::Depth> left{
              W + q + int64_t{row} * columns, columns, shape.padded_outputs - row};
          deform_kernels::add_product<A, Product>(block, shared.factors, depth, left, right, sums);
        } else {
          const deform_kernels::PackLoader<T, A, Along::Side> left{
              W + int64_t{q} * shape.padded_outputs + row, shape.padded_outputs,
              shape.padded_outputs - row};
          deform_kernels::add_product<A, Product>(block, shared.factors, depth, left, right, sums);
        }
      }
    }
  }
  block.each([&](int thread) {
    Product::each_run(thread, sums[thread], [&](int r, int c, const A* run) {
      if (row + r >= shape.outputs) return;
      deform_kernels::write_outputs<T, A, Product::kRun>(arguments, group * shape.outputs + row + r,
                                                         first + c, run);
    });
  });
}

template <class T, class A, class B>
void deform_tile(const DeformForwardTile& arguments, const B& block, int64_t i,
                 ForwardShared<A>& shared) {
  deform_product<T, A, deform_kernels::FmaProduct<T, A>>(arguments, block, i, shared);
}
template <class T, class A, class B>
void deform_narrow(const DeformForwardTile& arguments, const B& block, int64_t i,
                   ForwardNarrowShared<A>& shared) {
  using Product = deform_kernels::FmaProduct<T, A, DeformForwardTile::kNarrow>;
  deform_product<T, A, Product>(arguments, block, i, shared);
}
template <class T, class A, class B>
void deform_tensor(const DeformForwardTile& arguments, const B& block, int64_t i,
                   ForwardTensorShared<A>& shared) {
  deform_product<T, A, deform_kernels::TensorProduct<T>>(arguments, block, i, shared);
}

}  // namespace myops

#ifndef MYOPS_DEFORM_VARIANT  // forward_tensor.h and forward_narrow.h have the other kernels
MYOPS_KERNEL(deform_direct, DeformForward, deform_direct)
MYOPS_BLOCK_KERNEL(deform_tile, DeformForwardTile, ForwardShared, deform_tile)
#endif
