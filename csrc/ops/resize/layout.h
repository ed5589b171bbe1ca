// Memory order. channels_last tensors are processed as they lie in memory, with one exception.
#pragma once

#include <algorithm>

#include "geometry.h"

namespace myops::resize::MYOPS_ISA {

// target[b][column][row] = source[b][row][column].
template <class T>
void swap_axes(const KernelContext& context, int64_t batch, int64_t rows, int64_t columns,
               const T* source, T* target) {
  const int64_t grain = (1 << 16) / rows + 1;
  context.parallel_for(batch * columns, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* from = source + i / columns * rows * columns + i % columns;
      for (int64_t row = 0; row < rows; ++row) target[i * rows + row] = from[row * columns];
    }
  });
}

// Calls run(source, target, channels_last). When the channels themselves are resampled, a
// channels_last tensor is brought into row-major order and back: passes run from the fastest axis
// in memory to the slowest, and sums in another order would have other last bits.
template <class T, class Run>
void in_memory_order(const KernelContext& context, const Settings& settings,
                     const std::vector<Axis>& axes, const Tensor& input, const Tensor& output,
                     const Run& run) {
  const bool channels_last = input.channels_last();
  if (!channels_last || is_identity(settings, axes[1])) {
    run(input.as<T>(), output.as<T>(), channels_last);
    return;
  }
  const auto swap = [&](const Tensor& shape, bool to_channels_last, const T* source, T* target) {
    const int64_t batch = shape.shape[0], channels = shape.shape[1];
    const int64_t points = shape.elements() / (batch * channels);
    swap_axes(context, batch, to_channels_last ? channels : points,
              to_channels_last ? points : channels, source, target);
  };
  const Scratch in = context.scratch(sizeof(T) * static_cast<size_t>(input.elements()));
  const Scratch out = context.scratch(sizeof(T) * static_cast<size_t>(output.elements()));
  swap(input, false, input.as<T>(), in.as<T>());
  run(in.as<T>(), out.as<T>(), false);
  swap(output, output.channels_last(), out.as<T>(), output.as<T>());
}

}  // namespace myops::resize::MYOPS_ISA
