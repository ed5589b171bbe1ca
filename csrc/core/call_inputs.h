// The inputs of one call, as the shape rule and the kernel see them.
#pragma once

#include <array>
#include <list>
#include <memory>
#include <optional>

#include "myops/op.h"

namespace myops {

// The numbers in an input that was declared with .values() decide the shape of an output. They are
// copied once, here, into memory of the call. The shape rule, the kernel and the shape cache all
// see this copy, even if another thread writes to the caller's memory meanwhile.
class CallInputs {
 public:
  // Refuses lists that are too long. `given` must outlive this.
  CallInputs(const Op& op, const Tensors& given, Budget& budget);
  CallInputs(const CallInputs&) = delete;  // tensors_ points into the others
  CallInputs& operator=(const CallInputs&) = delete;

  const TensorPointers& tensors() const { return tensors_; }

 private:
  void copy(const Op& op, size_t input, Budget& budget);
  // The dtype of the first input selects a kernel, even if the call leaves this input out.
  void tell_dtype(const Op& op, const Tensors& given);

  struct Larger {
    Tensor list;
    std::unique_ptr<unsigned char[]> memory;
  };

  TensorPointers tensors_;
  std::array<std::optional<Tensor>, 3> lists_;  // constructed only when used, to save time
  alignas(8) std::array<unsigned char, 256> memory_;
  size_t lists_used_ = 0, memory_used_ = 0;
  std::optional<Tensor> first_;
  std::list<Larger> more_;  // lists for which the members above are too few or too small
};

}  // namespace myops
