#include "out_argument.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

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

// The bytes that follow each other without a gap, from the innermost axes on. The strides of the
// other axes are multiples of `step`, which becomes their greatest common divisor.
int64_t block(const Tensor& tensor, int64_t& step) {
  std::vector<std::pair<int64_t, int64_t>> axes;  // stride in bytes, length
  auto bytes = static_cast<int64_t>(dtype_size(tensor.dtype));
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    if (tensor.shape[axis] == 1) continue;
    axes.emplace_back(std::abs(tensor.strides[axis]) * bytes, tensor.shape[axis]);
  }
  std::sort(axes.begin(), axes.end());
  for (const auto& [stride, length] : axes) {
    if (stride == bytes) {
      bytes *= length;
    } else {
      step = std::gcd(step, stride);
    }
  }
  return bytes;
}

// Whether elements lie where these strides say. Axes of length 1 and empty tensors fit all strides.
bool same_places(const Tensor& tensor, const Shape& strides) {
  if (tensor.elements() == 0) return true;
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != strides[axis]) return false;
  }
  return true;
}

}  // namespace

bool share_memory(const Tensor& one, const Tensor& other) {
  const auto [begin, end] = extent(one);
  const auto [first, last] = extent(other);
  if (!(first < end && begin < last)) return false;
  // Blocks that repeat in steps of a multiple of `step`, as the columns of a matrix do, are apart
  // where one period of them is.
  int64_t step = 0;
  const int64_t mine = block(one, step), others = block(other, step);
  if (step == 0) return true;
  const auto distance = static_cast<int64_t>(first - begin) % step;
  const int64_t offset = distance < 0 ? distance + step : distance;
  return offset < mine || step - offset < others;
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

void refuse_shared(const Op& op, const TensorPointers& inputs) {
  for (size_t written = 0; written < op.inputs.size(); ++written) {
    if (!op.inputs[written].is_written) continue;
    const Tensor& tensor = *inputs[written];
    refuse_expanded(op, op.inputs[written].name, tensor.shape, tensor.strides);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (i == written || !inputs[i]->present || !share_memory(*inputs[i], *inputs[written])) {
        continue;
      }
      fail(op.name, op.inputs[written].name, str("memory that it shares with ", op.input_name(i)),
           "memory of its own");
    }
  }
}

Tensor accept_output(const Op& op, const Tensors& inputs, Tensor out, DType dtype,
                     const Shape& shape, const Shape& strides) {
  if (out.dtype != dtype) {
    fail(op.name, "out", str("dtype ", dtype_name(out.dtype)),
         str(dtype_name(dtype), ", that of the result"));
  }
  if (out.shape != shape) fail(op.name, "out", str("shape ", out.shape), str("shape ", shape));
  Shape accepted = strides;
  if (!same_places(out, strides)) {
    const Tensor result(nullptr, dtype, shape, strides);
    const bool contiguous = result.is(Layout::Contiguous);
    if (contiguous || !op.outputs[0].is_elementwise || !out.is(Layout::Contiguous)) {
      fail(op.name, "out", str("strides ", out.strides),
           contiguous                     ? "contiguous memory"
           : op.outputs[0].is_elementwise ? str("contiguous memory, or strides ", strides)
                                          : "channels_last memory, as that of the input");
    }
    accepted = strides_for(shape, Layout::Contiguous);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].present) continue;
    if (share_memory(out, inputs[i])) {
      fail(op.name, "out", str("memory that it shares with ", op.input_name(i)),
           "memory of its own");
    }
  }
  out.strides = std::move(accepted);
  return out;
}

}  // namespace myops
