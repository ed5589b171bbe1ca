// Memory in place of outputs that do not exist yet, because the kernel has not set their lengths.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "myops/op.h"

namespace myops {

// A kernel that writes an output before it has set the length writes here, and the call is refused
// instead of ending the process. The memory is only reserved: the system provides a page when
// something is written there, so a call of a correct kernel costs one page for each output.
class UnmadeOutputs {
 public:
  UnmadeOutputs() = default;
  UnmadeOutputs(const UnmadeOutputs&) = delete;
  UnmadeOutputs& operator=(const UnmadeOutputs&) = delete;
  ~UnmadeOutputs();

  // An address for each output, by its dtype and the largest shape that it can have; null where the
  // system has no memory.
  void reserve(const std::vector<std::pair<DType, Shape>>& outputs);
  void* at(size_t number) const { return reserved_[number].data; }
  // Whether something was written at the beginning of this memory.
  bool written(size_t number) const;

 private:
  struct Reserved {
    void* data;
    bool is_string;
  };

  void* memory_ = nullptr;
  size_t bytes_ = 0;
  std::vector<Reserved> reserved_;
  std::vector<std::vector<std::string>> strings_;
};

}  // namespace myops
