// Tensors of strings: ONNX Runtime does not expose their memory, so they are copied to and from it.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "abi.h"
#include "myops/op.h"

namespace myops::ort {

// Owns the strings that a kernel reads and writes in one call, or the constants of a node.
class Strings {
 public:
  // The strings of a tensor with so many elements. The budget pays for the copy.
  void* read(const Op& op, const std::string& input, const Api& api, const Value* value,
             int64_t count, Budget& budget);
  // Empty strings, which write() copies into the value.
  void* make(Value* value, int64_t count);
  void write(const Api& api) const;

 private:
  struct Result {
    Value* value;
    std::vector<std::string> strings;
  };
  std::deque<std::vector<std::string>> read_;
  std::deque<Result> made_;
};

}  // namespace myops::ort
