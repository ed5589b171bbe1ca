// Planes of numbers in the layout that a test passes to a kernel.
#pragma once

#include <cstdint>
#include <vector>

#include "myops/tensor.h"

// `planes`: [batch][channels][pixels].
template <class T>
std::vector<T> laid_out(const std::vector<T>& planes, int64_t batch, int64_t channels,
                        int64_t pixels, myops::Layout layout) {
  if (layout == myops::Layout::Contiguous) return planes;
  std::vector<T> last(planes.size());
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t p = 0; p < pixels; ++p) {
        last[static_cast<size_t>((n * pixels + p) * channels + c)] =
            planes[static_cast<size_t>((n * channels + c) * pixels + p)];
      }
    }
  }
  return last;
}
