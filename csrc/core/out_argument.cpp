#include "out_argument.h"

#include <utility>

namespace myops {
namespace {

// The lowest address of an element, and the address behind the highest one.
std::pair<uintptr_t, uintptr_t> extent(const Tensor& tensor) {
  const auto begin = reinterpret_cast<uintptr_t>(tensor.data);
  if (tensor.elements() == 0) return {begin, begin};
  int64_t first = 0, last = 0;  // of NumPy's arrays, strides may be negative
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    const int64_t step = (tensor.shape[axis] - 1) * tensor.strides[axis];
    (step < 0 ? first : last) += step;
  }
  const auto size = static_cast<int64_t>(dtype_size(tensor.dtype));
  return {begin + static_cast<uintptr_t>(first * size),
          begin + static_cast<uintptr_t>((last + 1) * size)};
}

}  // namespace

bool share_memory(const Tensor& one, const Tensor& other) {
  const auto [begin, end] = extent(one);
  const auto [first, last] = extent(other);
  return first < end && begin < last;
}

void refuse_expanded(const Op& op, const std::string& argument, const Shape& shape,
                     const Shape& strides) {
  if (element_count(shape) == 0) return;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 1 || strides[axis] != 0) continue;
    fail(op.name, argument, str("one place in memory for the elements along axis ", axis),
         "a place for each, because the op writes into them; make a copy");
  }
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
