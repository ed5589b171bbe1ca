// The gradient of W: the sum over the pixels of G A, or of G A' in the double backward. The pixels
// of all images are divided into slices, whose sums are computed separately and then added in
// order.
#pragma once

#include "deform_conv2d/cuda/samples.h"

namespace myops {

struct DeformWeights {
  static constexpr int kOutputs = 8;         // that a thread of weights_direct makes
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
// The number of elements for which weights_direct is launched.
inline int64_t weight_threads(const DeformWeights& arguments) {
  const DeformSizes& sizes = arguments.inputs.sizes;
  return arguments.slices * weight_runs(sizes) * channels_of(sizes) * sizes.taps;
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

// Many outputs in a group: rows of the product are outputs, columns are those of the group's parts.
struct DeformWeightsTile {
  static constexpr int kThreads = deform_kernels::Tile::kThreads, kBlocks = 3;
  static constexpr int32_t kTogether = DeformWeights::kTogether;
  DeformInputs inputs;
  DeformShape shape;
  const void* grad;  // [batch, outputs, pixels] with strides
  int64_t image_stride, output_stride;
  struct Term {
    const void* X;    // packed
    int32_t weights;  // see Weights
  } terms[2];
  int32_t term_count;
  int32_t slices, slice_pixels;     // pixels of a slice: a multiple of kTogether's divisor kDepth
  int32_t row_tiles, column_tiles;  // of a group
  void* sums;                       // [slices, outputs of all groups, columns], of type A
  DeformResult grad_W;
  int32_t columns() const { return shape.parts_of_group * shape.columns(); }
};

namespace deform_kernels {

inline int64_t weight_blocks(const DeformWeightsTile& arguments) {
  return int64_t{arguments.slices} * arguments.shape.groups * arguments.row_tiles *
         arguments.column_tiles;
}

// G of outputs and pixels of all images, from `first` on.
template <class T, class A>
struct GradLoader {
  static constexpr Along kAlong = Along::Depth;
  using Loaded = Words;
  const DeformWeightsTile* arguments;
  int32_t first, first_output, outputs;  // outputs: how many exist

  Words load(int32_t d, int32_t i, bool exists) const {
    if (!exists || i >= outputs) return {};
    const Pixel at = pixel_of(arguments->shape, first + d);
    const int64_t place =
        at.n * arguments->image_stride + (first_output + i) * arguments->output_stride + at.pixel;
    return words_at(static_cast<const T*>(arguments->grad) + place, 0);
  }
  void values(const Words& loaded, int32_t, int32_t, bool, A* values) const {
    convert_pack<T, A>(loaded, values);
  }
};

// Stores a run of `count` sums, of which `existing` exist, or adds them to what is stored.
template <class A, int count>
void add_run(const A* sums, int32_t existing, bool add, A* to) {
  if (existing < count) {
    for (int v = 0; v < count; ++v) {
      if (v < existing) to[v] = add ? to[v] + sums[v] : sums[v];
    }
    return;
  }
  auto* at = reinterpret_cast<Run<A, count>*>(to);
  Run<A, count> run{};
  if (add) run = *at;
  for (int v = 0; v < count; ++v) run.at[v] = add ? run.at[v] + sums[v] : sums[v];
  *at = run;
}

}  // namespace deform_kernels

template <class A>
using WeightsShared =
    deform_kernels::SampledParts<A, deform_kernels::FmaFactors<A, deform_kernels::Tile::kColumns>>;
template <class A>
using WeightsTensorShared = deform_kernels::SampledParts<A, deform_kernels::TensorFactors>;

template <class T, class A, class Product, class B, class Shared>
void weights_product(const DeformWeightsTile& arguments, const B& block, int64_t i,
                     Shared& shared) {
  using deform_kernels::Along;
  using deform_kernels::Tile;
  using Sums = typename Product::Sums;
  const DeformShape& shape = arguments.shape;
  // Neighbouring blocks have the same pixels.
  const auto tile = static_cast<uint32_t>(i);
  const auto row_tiles = static_cast<uint32_t>(arguments.row_tiles);
  const auto column_tiles = static_cast<uint32_t>(arguments.column_tiles);
  const auto groups = static_cast<uint32_t>(shape.groups);
  const auto row = static_cast<int32_t>(tile % row_tiles) * Tile::kRows;
  const auto first = static_cast<int32_t>(tile / row_tiles % column_tiles) * Tile::kColumns;
  const auto group = static_cast<int32_t>(tile / row_tiles / column_tiles % groups);
  const auto slice = static_cast<int32_t>(tile / row_tiles / column_tiles / groups);
  const int32_t all = shape.batch * shape.padded_pixels, columns = arguments.columns();
  const int32_t begin = slice * arguments.slice_pixels;
  const int32_t end = smaller(all, begin + arguments.slice_pixels);
  // Taps of all parts: those of the tile, and the pixels whose samplers are stored at a time.
  const int32_t first_tap = divided(first, shape.by_channels);
  const int32_t last = smaller(first + Tile::kColumns, columns);
  const int32_t taps = divided(last - 1, shape.by_channels) + 1 - first_tap;
  const int32_t together = smaller(DeformWeightsTile::kTogether,
                                   Shared::kSamplers / taps / Product::kDepth * Product::kDepth);
  const int32_t before = first_tap * shape.padded_channels;
  PerThread<Sums, B::kThreads> sums;
  int32_t added = begin;  // the sums of the pixels before are in memory
  for (int32_t from = begin; from < end; from += together) {
    const int32_t pixels = smaller(together, end - from);
    for (int term = 0; term < arguments.term_count; ++term) {
      block.each([&](int thread) {
        for (int e = thread; e < taps * pixels; e += B::kThreads) {
          const int32_t tap = first_tap + e / pixels, part = divided(tap, shape.by_taps);
          shared.samplers[e] = deform_kernels::taken_if<T, A>(
              arguments.inputs, shape, arguments.terms[term].weights,
              deform_kernels::pixel_of(shape, from + e % pixels),
              group * shape.parts_of_group + part, tap - part * shape.taps);
        }
      });
      const deform_kernels::GradLoader<T, A> left{&arguments, from, group * shape.outputs + row,
                                                  shape.outputs - row};
      const deform_kernels::SampleLoader<T, A, Along::Side> right{
          &shape, arguments.terms[term].X, shared.samplers, pixels, first - before, last - before};
      deform_kernels::add_product<A, Product>(block, shared.factors, pixels, left, right, sums);
    }
    const int32_t done = from + pixels;
    if (done < end && done - added < DeformWeightsTile::kTogether) continue;
    block.begin([&](int thread) {
      Product::each_run(thread, sums[thread], [&](int r, int c, const A* run) {
        if (row + r >= shape.outputs || first + c >= columns) return;
        A* to = static_cast<A*>(arguments.sums) +
                ((int64_t{slice} * shape.groups + group) * shape.outputs + row + r) * columns +
                first + c;
        deform_kernels::add_run<A, Product::kRun>(run, columns - first - c, added > begin, to);
      });
      sums[thread] = Sums{};
    });
    added = done;
  }
}

template <class T, class A, class B>
void weights_tile(const DeformWeightsTile& arguments, const B& block, int64_t i,
                  WeightsShared<A>& shared) {
  weights_product<T, A, deform_kernels::FmaProduct<T, A>>(arguments, block, i, shared);
}
template <class T, class A, class B>
void weights_tensor(const DeformWeightsTile& arguments, const B& block, int64_t i,
                    WeightsTensorShared<A>& shared) {
  weights_product<T, A, deform_kernels::TensorProduct<T>>(arguments, block, i, shared);
}

// Adds the slices of one column of an output.
template <class T, class A>
void add_tile_slices(const DeformWeightsTile& arguments, int64_t i) {
  const DeformShape& shape = arguments.shape;
  const int32_t columns = arguments.columns();
  const auto o = static_cast<int32_t>(i / columns);
  const auto column = static_cast<int32_t>(i - int64_t{o} * columns);
  const int32_t tap = divided(column, shape.by_channels), part = divided(tap, shape.by_taps);
  const int32_t c = column - tap * shape.padded_channels, k = tap - part * shape.taps;
  if (c >= shape.channels) return;
  const A* from = static_cast<const A*>(arguments.sums) + i;
  const int64_t step = int64_t{shape.groups} * shape.outputs * columns;
  A sum = 0;
  for (int32_t slice = 0; slice < arguments.slices; ++slice) sum += from[slice * step];
  const int32_t ky = divided(k, shape.by_kernel_width);
  deform_kernels::write<T, A>(arguments.grad_W, o, part * shape.channels + c, ky,
                              k - ky * shape.kernel_width, sum);
}

}  // namespace myops

#ifndef MYOPS_DEFORM_VARIANT  // weights_tensor.h has the other kernel
MYOPS_KERNEL(weights_direct, DeformWeights, weights_direct)
MYOPS_KERNEL(add_slices, DeformWeights, add_slices)
MYOPS_BLOCK_KERNEL(weights_tile, DeformWeightsTile, WeightsShared, weights_tile)
#endif
MYOPS_KERNEL(add_tile_slices, DeformWeightsTile, add_tile_slices)
