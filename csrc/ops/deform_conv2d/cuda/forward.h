// deform_conv2d on CUDA: a thread makes kOutputs channels of one output pixel, so that each sample
// is computed once for these. No column matrix is stored.
#pragma once

#include "deform_conv2d/cuda/positions.h"

namespace myops {

struct DeformForward {
  static constexpr int kOutputs = 8;
  DeformSizes sizes;
  DeformTensor X, W, offset, mask;
  const void* bias;  // null: none
  int64_t bias_stride;
  DeformResult Y;
  // Runs of kOutputs channels in one group; the last of a group may be shorter.
  int64_t runs() const {
    return sizes.groups * ((sizes.outputs / sizes.groups + kOutputs - 1) / kOutputs);
  }
};

template <class T, class A>
void deform_forward(const DeformForward& arguments, int64_t i) {
  constexpr int kOutputs = DeformForward::kOutputs;
  const DeformSizes& sizes = arguments.sizes;
  const int64_t pixels = deform_kernels::pixels(sizes), pixel = i % pixels;
  const int64_t run = i / pixels % arguments.runs(), n = i / pixels / arguments.runs();
  const int64_t each = sizes.outputs / sizes.groups, runs = arguments.runs() / sizes.groups;
  const int64_t group = run / runs, first = group * each + run % runs * kOutputs;
  const int64_t count = smaller<int64_t>(kOutputs, (group + 1) * each - first);
  const int64_t channels = sizes.channels / sizes.groups;
  const int64_t begin = group * channels, end = begin + channels;
  A sums[kOutputs] = {};
  if (channels > 0) {
    const int64_t shared = sizes.channels / sizes.offset_groups;  // channels with equal offsets
    for (int64_t g = begin / shared; g * shared < end; ++g) {
      const int64_t from = larger(g * shared, begin), to = smaller((g + 1) * shared, end);
      for (int64_t k = 0; k < sizes.taps; ++k) {
        const auto at =
            deform_kernels::position<T, A>(sizes, arguments.offset, arguments.mask, n, g, k, pixel);
        const auto weights = deform_kernels::masked(at);
        const int64_t ky = k / sizes.kernel_width, kx = k % sizes.kernel_width;
        for (int64_t c = from; c < to; ++c) {
          const A value = deform_kernels::sample<T, A>(sizes, arguments.X, n, c, at, weights);
          for (int o = 0; o < kOutputs; ++o) {
            if (o >= count) break;
            const A w = deform_kernels::read<T, A>(arguments.W, first + o, c - begin, ky, kx);
            sums[o] = std::fma(w, value, sums[o]);
          }
        }
      }
    }
  }
  for (int64_t o = 0; o < count; ++o) {
    A sum = sums[o];
    if (arguments.bias != nullptr) {
      sum += static_cast<A>(
          static_cast<const T*>(arguments.bias)[(first + o) * arguments.bias_stride]);
    }
    deform_kernels::write<T, A>(arguments.Y, n, first + o, pixel / sizes.out_width,
                                pixel % sizes.out_width, sum);
  }
}

}  // namespace myops

MYOPS_KERNEL(deform_forward, DeformForward, deform_forward)
