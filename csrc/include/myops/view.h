// Access to the elements of a strided tensor by their indices.
//
//   const View<const float, 5> planes(context.input(0));  // [N, D, C, H, W], or [D, C, H, W]
//   planes(n, d, c, y, x)                                 // an element
//   &planes(n, d)                                         // where plane d of n begins
#pragma once

#include <array>
#include <cstddef>

#include "myops/tensor.h"

namespace myops {

namespace detail {
// Throws a Mistake: no index of a View leads to the elements of a tensor with more axes.
[[noreturn]] void refuse_rank(size_t rank, size_t most);
}  // namespace detail

// A tensor of lower rank is broadcast: missing leading axes have stride 0, so any index is valid
// there. A tensor with more than `Rank` axes is an Error that names the op.
template <class T, size_t Rank>
class View {
 public:
  explicit View(const Tensor& tensor) : data_(tensor.as<T>()) {
    if (tensor.shape.size() > Rank) detail::refuse_rank(tensor.shape.size(), Rank);
    const size_t missing = Rank - tensor.shape.size();
    for (size_t axis = 0; axis < Rank; ++axis) {
      lengths_[axis] = axis < missing ? 1 : tensor.shape[axis - missing];
      strides_[axis] = axis < missing ? 0 : tensor.strides[axis - missing];
    }
  }

  int64_t length(size_t axis) const { return lengths_[axis]; }

  // Trailing indices that are left out are 0.
  template <class... Index>
  T& operator()(Index... index) const {
    static_assert(sizeof...(Index) <= Rank, "more indices than axes");
    const std::array<int64_t, sizeof...(Index)> indices{static_cast<int64_t>(index)...};
    int64_t offset = 0;
    for (size_t axis = 0; axis < indices.size(); ++axis) offset += indices[axis] * strides_[axis];
    return data_[offset];
  }

 private:
  T* data_;
  std::array<int64_t, Rank> lengths_;
  std::array<int64_t, Rank> strides_;
};

}  // namespace myops
