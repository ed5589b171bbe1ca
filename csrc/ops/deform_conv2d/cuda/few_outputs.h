// deform_conv2d where a group has few outputs, with numbers of 32 bits: a thread computes kOutputs
// of one pixel, so that each sample is computed once for these. X is read where it is; W is packed.
#pragma once

#include "deform_conv2d/cuda/shape.h"

namespace myops {

struct DeformFewOutputs {
  static constexpr int kOutputs = 8;
  DeformInputs inputs;
  DeformShape shape;
  struct Term {
    const void* W;  // packed, outputs along
    DeformTensor X;
    int32_t weights;  // see Weights
  } terms[3];
  int32_t term_count;
  int32_t runs;  // of kOutputs outputs, of a group
  Divisor by_runs, by_groups;
  const void* bias;
  int64_t bias_stride;
  DeformResult Y;
};

namespace deform_kernels {

// Where a tap samples a plane of an image.
template <class A>
struct PlanePlaces {
  int32_t at[4];  // -1: outside
  A weights[4];
};

template <class T, class A>
PlanePlaces<A> plane_places(const DeformFewOutputs& arguments, const DeformFewOutputs::Term& term,
                            int32_t n, int32_t group, int32_t tap, const RowColumn& pixel) {
  const DeformShape& shape = arguments.shape;
  const auto at = position<T, A>(arguments.inputs, shape, n, group, tap, pixel);
  Corners<A> weights = masked(at);
  if (term.weights == kChanges) {
    weights = changes(
        at, move_at<T, A>(arguments.inputs, n, group * shape.taps + tap, pixel.row, pixel.column));
  }
  const auto down = static_cast<int32_t>(term.X.stride[2]);
  const auto across = static_cast<int32_t>(term.X.stride[3]);
  PlanePlaces<A> made;
  for (int j = 0; j < 4; ++j) {
    const int32_t y = at.y + j / 2, x = at.x + j % 2;
    const bool inside = at.hit && y >= 0 && y < shape.height && x >= 0 && x < shape.width;
    made.at[j] = inside ? y * down + x * across : -1;
    made.weights[j] = weights.at[j];
  }
  return made;
}

template <class T, class A>
A sample_plane(const T* plane, const PlanePlaces<A>& places) {
  A sum = 0;
  for (int j = 0; j < 4; ++j) {
    A value = 0;
    if (places.at[j] >= 0) value = static_cast<A>(plane[places.at[j]]);
    sum = j == 0 ? places.weights[j] * value : std::fma(places.weights[j], value, sum);
  }
  return sum;
}

}  // namespace deform_kernels

template <class T, class A>
void deform_few(const DeformFewOutputs& arguments, int64_t i) {
  constexpr int kOutputs = DeformFewOutputs::kOutputs, kPack = Pack<T>::kCount;
  const DeformShape& shape = arguments.shape;
  const auto thread = static_cast<int32_t>(i);
  const int32_t plane = divided(thread, shape.by_pixels);
  const auto pixel = deform_kernels::row_column(shape, thread - plane * shape.pixels);
  const int32_t of_all = divided(plane, arguments.by_runs);
  const int32_t first = (plane - of_all * arguments.runs) * kOutputs;
  const int32_t n = divided(of_all, arguments.by_groups), group = of_all - n * shape.groups;
  A sums[kOutputs] = {};
  for (int term = 0; term < arguments.term_count; ++term) {
    const DeformFewOutputs::Term& of = arguments.terms[term];
    const T* image = static_cast<const T*>(of.X.data) + n * of.X.stride[0];
    for (int32_t p = 0; p < shape.parts_of_group; ++p) {
      const int32_t part = group * shape.parts_of_group + p;
      for (int32_t k = 0; k < shape.taps; ++k) {
        const auto places = deform_kernels::plane_places<T, A>(
            arguments, of, n, part / shape.parts_of_offsets, k, pixel);
        const T* from = image + part * shape.channels * of.X.stride[1];
        const T* W =
            static_cast<const T*>(of.W) +
            (int64_t{part} * shape.taps + k) * shape.padded_channels * shape.padded_outputs + first;
        for (int32_t c = 0; c < shape.channels; ++c) {
          const A value = deform_kernels::sample_plane<T, A>(from, places);
          for (int o = 0; o < kOutputs; o += kPack) {
            if (first + o >= shape.outputs) break;
            const Pack<T> w = *reinterpret_cast<const Pack<T>*>(W + o);
            for (int v = 0; v < kPack; ++v) {
              sums[o + v] = std::fma(static_cast<A>(w.at[v]), value, sums[o + v]);
            }
          }
          from += of.X.stride[1];
          W += shape.padded_outputs;
        }
      }
    }
  }
  for (int o = 0; o < kOutputs; ++o) {
    if (first + o >= shape.outputs) break;
    const int32_t output = group * shape.outputs + first + o;
    if (arguments.bias != nullptr) {
      sums[o] +=
          static_cast<A>(static_cast<const T*>(arguments.bias)[output * arguments.bias_stride]);
    }
    deform_kernels::write<T, A>(arguments.Y, n, output, pixel.row, pixel.column, sums[o]);
  }
}

}  // namespace myops

MYOPS_KERNEL(deform_few, DeformFewOutputs, deform_few)
