// Memory order. channels_last tensors are processed in memory order, with one exception.
#pragma once

#include <algorithm>

#include "../spec/geometry.h"

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

// Whether the tensor must be brought into row-major order and back because its channels are
// resampled: passes run from the fastest axis in memory to the slowest, and another order of the
// sums would change the last bits.
inline bool must_swap(const Settings& settings, const Axes& axes, bool channels_last) {
  return channels_last && !is_identity(settings, axes[1]);
}

// Calls run(source, target), both in row-major order where they must be.
template <class T, class Run>
void in_memory_order(const KernelContext& context, bool swapped, const Tensor& input,
                     const Tensor& output, const Run& run) {
  if (!swapped) {
    run(input.as<T>(), output.as<T>());
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
  run(in.as<T>(), out.as<T>());
  swap(output, output.channels_last(), out.as<T>(), output.as<T>());
}

}  // namespace myops::resize::MYOPS_ISA
