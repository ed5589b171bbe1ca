// What the checks and the shape rule of an op said of the last call, and what its kernel kept.
#pragma once

#include <mutex>
#include <vector>

#include "myops/op.h"

namespace myops {

struct OutputDescription {
  DType dtype = DType::Float32;
  Shape shape;
};
using OutputDescriptions = SmallVector<OutputDescription, 3>;

struct Answer {
  OutputDescriptions outputs;
  Work work;           // of the kernel; null where it kept none
  uint64_t asked = 0;  // which question it answers; 0: one that was not kept
};

// A node of a model, or a function in a loop, is mostly called with the shapes that it had before.
// The rule sees dtypes, shapes, attributes and short lists of numbers, so that where these are the
// same as in the last call the answer is too, and finding that out is several times faster than the
// rule. Each caller that repeats itself owns one, for one op. Any thread may use it: one that finds
// it in use goes without. Its inputs are those of CallInputs: what is compared is what the rule saw
// or will see, and lists of numbers have no gaps.
class ShapeCache {
 public:
  // False, and `answer` as it was, where the last call was another one.
  bool recall(const Op& op, const TensorPointers& inputs, const Attributes& attributes,
              Answer& answer);
  void keep(const Op& op, const TensorPointers& inputs, const Attributes& attributes,
            Answer& answer);
  // Unless something else has been asked since.
  void keep_work(uint64_t asked, Work work);

 private:
  struct Asked {
    bool present = false;
    DType dtype = DType::Float32;
    Shape shape;
    std::vector<unsigned char> numbers;  // the bytes of a list that decides the output's shape
  };
  bool is(const Op& op, const TensorPointers& inputs, const Attributes& attributes) const;

  std::mutex mutex_;  // nobody waits for it
  bool known_ = false;
  uint64_t asked_ = 0;  // how many questions were kept
  SmallVector<Asked, 6> inputs_;
  std::vector<AttributeValue> attributes_;
  OutputDescriptions outputs_;
  Work work_;
};

}  // namespace myops
