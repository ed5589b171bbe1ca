// A non-owning view of a tensor: pointer, element type, shape, strides.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>

#include "myops/dtype.h"
#include "myops/small_vector.h"

namespace myops {

using Shape = SmallVector<int64_t, 6>;

enum class Layout : uint8_t { Contiguous, ChannelsLast };

// 0 if any length is 0, even if the product of the others overflows. A product beyond int64 (of a
// tensor with zero strides, for example) is reported as the largest int64.
inline int64_t element_count(const Shape& shape) {
  for (int64_t dim : shape) {
    if (dim == 0) return 0;
  }
  int64_t count = 1;
  for (int64_t dim : shape) {
    if (__builtin_mul_overflow(count, dim, &count)) return std::numeric_limits<int64_t>::max();
  }
  return count;
}

inline size_t byte_count(const Shape& shape, DType dtype) {
  size_t bytes = 0;
  const auto elements = static_cast<size_t>(element_count(shape));
  return __builtin_mul_overflow(elements, dtype_size(dtype), &bytes) ? SIZE_MAX : bytes;
}

// Calls visit(axis, stride in elements) for each axis, beginning with the fastest in memory, until
// it returns false; returns whether it never did. ChannelsLast means NHWC or NDHWC storage of an
// NCHW or NCDHW shape.
template <class Visit>
bool visit_axes(const Shape& shape, Layout layout, const Visit& visit) {
  uint64_t step = 1;
  const auto next = [&](size_t axis) {
    if (!visit(axis, step)) return false;
    step *= shape[axis] > 1 ? static_cast<uint64_t>(shape[axis]) : 1;
    return true;
  };
  const bool last = layout == Layout::ChannelsLast;
  if (last && !next(1)) return false;
  for (size_t axis = shape.size(); axis-- > (last ? 2 : 0);) {
    if (!next(axis)) return false;
  }
  return !last || next(0);
}

// The strides of an empty tensor may overflow; they are never used.
inline Shape strides_for(const Shape& shape, Layout layout) {
  Shape strides(shape.size());
  visit_axes(shape, layout, [&](size_t axis, uint64_t step) {
    strides[axis] = static_cast<int64_t>(step);
    return true;
  });
  return strides;
}

struct Tensor {
  void* data = nullptr;
  DType dtype = DType::Float32;
  Shape shape;
  Shape strides;         // in elements
  bool present = false;  // false: an optional input that was left out

  Tensor() = default;
  Tensor(void* data_, DType dtype_, Shape shape_, Layout layout = Layout::Contiguous)
      : data(data_),
        dtype(dtype_),
        shape(std::move(shape_)),
        strides(strides_for(shape, layout)),
        present(true) {}
  Tensor(void* data_, DType dtype_, Shape shape_, Shape strides_)
      : data(data_),
        dtype(dtype_),
        shape(std::move(shape_)),
        strides(std::move(strides_)),
        present(true) {}

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t elements() const { return element_count(shape); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }

  // Axes of length 1 and empty tensors fit every layout, as in torch.
  bool is(Layout layout) const {
    if (layout == Layout::ChannelsLast && rank() != 4 && rank() != 5) return false;
    if (elements() == 0) return layout == Layout::Contiguous;
    return visit_axes(shape, layout, [&](size_t axis, uint64_t step) {
      return shape[axis] == 1 || strides[axis] == static_cast<int64_t>(step);
    });
  }
  // Whether the results of a call are channels_last if this is its first input: also for a crop of
  // channels_last memory, as in torch. Contiguous where both layouts fit.
  bool channels_last() const {
    if ((rank() != 4 && rank() != 5) || elements() == 0 || shape[1] == 1) return false;
    int64_t previous = 0;
    bool has_points = false;
    const bool ordered = visit_axes(shape, Layout::ChannelsLast, [&](size_t axis, uint64_t) {
      if (shape[axis] == 1) return true;
      if (strides[axis] <= previous) return false;
      previous = strides[axis];
      has_points = has_points || axis > 1;
      return true;
    });
    return ordered && has_points;
  }
};

using Tensors = SmallVector<Tensor, 6>;
using TensorPointers = SmallVector<const Tensor*, 6>;

}  // namespace myops
