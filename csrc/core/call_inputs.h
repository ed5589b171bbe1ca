// The inputs of one call, as its rule and its kernel see them.
#pragma once

#include <array>
#include <list>
#include <memory>
#include <optional>

#include "myops/op.h"

namespace myops {

// The numbers in an input that was declared with .values() decide the shape of an output. They are
// read once, here, into memory of the call: the shape rule, the kernel and what is remembered for
// the next call all see this copy, whatever another thread writes into the caller's memory.
class CallInputs {
 public:
  // Refuses lists that are too long. `given` must outlive this.
  CallInputs(const Op& op, const Tensors& given, Budget& budget);
  CallInputs(const CallInputs&) = delete;  // tensors_ points into the others
  CallInputs& operator=(const CallInputs&) = delete;

  const TensorPointers& tensors() const { return tensors_; }

 private:
  void copy(const Op& op, size_t input, Budget& budget);

  struct Larger {
    Tensor list;
    std::unique_ptr<unsigned char[]> memory;
  };

  TensorPointers tensors_;
  std::array<std::optional<Tensor>, 3> lists_;  // made where they are wanted: that takes time
  alignas(8) std::array<unsigned char, 256> memory_;
  size_t lists_used_ = 0, memory_used_ = 0;
  std::list<Larger> more_;  // what these have no place for
};

}  // namespace myops
