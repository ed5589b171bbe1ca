#include "out_argument.h"

#include <utility>

namespace myops {
namespace {

// Address of the first element, and the address behind the last one.
std::pair<uintptr_t, uintptr_t> extent(const Tensor& tensor) {
  const auto begin = reinterpret_cast<uintptr_t>(tensor.data);
  if (tensor.elements() == 0) return {begin, begin};
  int64_t last = 0;
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    last += (tensor.shape[axis] - 1) * tensor.strides[axis];
  }
  return {begin, begin + static_cast<size_t>(last + 1) * dtype_size(tensor.dtype)};
}

}  // namespace

bool share_memory(const Tensor& one, const Tensor& other) {
  const auto [begin, end] = extent(one);
  const auto [first, last] = extent(other);
  return first < end && begin < last;
}

Tensor accept_output(const Op& op, const Tensors& inputs, Tensor out, DType dtype,
                     const Shape& shape, Layout layout) {
  if (out.dtype != dtype) {
    fail(op.name, "out", str("dtype ", dtype_name(out.dtype)),
         str(dtype_name(dtype), ", that of the result"));
  }
  if (out.shape != shape) fail(op.name, "out", str("shape ", out.shape), str("shape ", shape));
  if (!out.is(layout)) {
    fail(op.name, "out", str("strides ", out.strides),
         layout == Layout::ChannelsLast ? "channels_last memory, as that of the input"
                                        : "contiguous memory");
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].present) continue;
    if (share_memory(out, inputs[i])) {
      fail(op.name, "out", str("memory that it shares with ", op.input_name(i)),
           "memory of its own");
    }
  }
  out.strides = strides_for(shape, layout);
  return out;
}

}  // namespace myops
