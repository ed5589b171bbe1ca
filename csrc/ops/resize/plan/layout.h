// Memory order. channels_last tensors are processed in memory order, except where channels are
// resized: must_swap().
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

// Brings memory of this shape into channels_last order, or back into row-major order.
template <class T>
void swap_channels(const KernelContext& context, const Shape& shape, bool to_channels_last,
                   const T* source, T* target) {
  const int64_t batch = shape[0], channels = shape[1];
  const int64_t points = element_count(shape) / (batch * channels);
  swap_axes(context, batch, to_channels_last ? channels : points,
            to_channels_last ? points : channels, source, target);
}

// Calls run(target), in row-major order where it must be.
template <class T, class Run>
void to_memory_order(const KernelContext& context, bool swapped, const Tensor& output,
                     const Run& run) {
  if (!swapped) return run(output.as<T>());
  const auto out = context.scratch_array<T>(output.elements());
  run(out.data());
  swap_channels(context, output.shape, output.channels_last(), out.data(), output.as<T>());
}

// Calls run(source, target), both in row-major order where they must be.
template <class T, class Run>
void in_memory_order(const KernelContext& context, bool swapped, const Tensor& input,
                     const Tensor& output, const Run& run) {
  if (!swapped) return run(static_cast<const T*>(input.as<T>()), output.as<T>());
  const auto in = context.scratch_array<T>(input.elements());
  swap_channels(context, input.shape, false, input.as<T>(), in.data());
  to_memory_order<T>(context, swapped, output,
                     [&](T* target) { run(static_cast<const T*>(in.data()), target); });
}

}  // namespace myops::resize::MYOPS_ISA
