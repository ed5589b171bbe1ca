// A plain view of a tensor: pointer, element type, shape, strides. It owns nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "myops/dtype.h"

namespace myops {

using Shape = std::vector<int64_t>;

enum class Layout : uint8_t { Contiguous, ChannelsLast };

// Empty whatever the other lengths are: their product may be more than int64 holds.
inline int64_t element_count(const Shape& shape) {
  for (int64_t dim : shape) {
    if (dim == 0) return 0;
  }
  int64_t count = 1;
  for (int64_t dim : shape) count *= dim;
  return count;
}

// Strides in elements. ChannelsLast means NHWC or NDHWC storage of an NCHW or NCDHW shape. Those of
// an empty tensor may wrap around; nobody walks them.
inline Shape strides_for(const Shape& shape, Layout layout) {
  Shape strides(shape.size());
  uint64_t step = 1;
  auto place = [&](size_t axis) {
    strides[axis] = static_cast<int64_t>(step);
    step *= shape[axis] > 1 ? static_cast<uint64_t>(shape[axis]) : 1;
  };
  if (layout == Layout::ChannelsLast) {
    place(1);
    for (size_t axis = shape.size(); axis-- > 2;) place(axis);
    place(0);
  } else {
    for (size_t axis = shape.size(); axis-- > 0;) place(axis);
  }
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
    const Shape expected = strides_for(shape, layout);
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] > 1 && strides[axis] != expected[axis]) return false;
    }
    return true;
  }
  // Contiguous wins where both fit.
  bool channels_last() const { return !is(Layout::Contiguous) && is(Layout::ChannelsLast); }
};

}  // namespace myops
