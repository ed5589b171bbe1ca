// The result of the last call's checks and shape rule, and what its kernel stored for the next
// call.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "myops/op.h"

namespace myops {

struct OutputDescription {
  DType dtype = DType::Float32;
  Shape shape;          // -1: decided by the kernel
  bool present = true;  // false: left out in this call
};
using OutputDescriptions = SmallVector<OutputDescription, 3>;

// Equal bit by bit: -0 differs from 0, because a kernel may copy the value into its result.
bool equal_attributes(const std::vector<AttributeValue>& now,
                      const std::vector<AttributeValue>& then);
struct DecidedAxis;
using DecidedAxes = std::vector<DecidedAxis>;

struct CachedCall {
  OutputDescriptions outputs;
  bool unusual = false;  // the kernel makes outputs, writes into inputs, or runs on copies of them
  std::shared_ptr<const DecidedAxes> decided;  // null: the rule knows every length
  CallCache call_cache;                        // of the kernel; may be null
  uint64_t number = 0;                         // identifies the cached call; 0: not cached
};

// A node of a model, or a function in a loop, is mostly called with the same shapes as before. The
// shape rule depends on dtypes, shapes, attributes and short lists of numbers; where these equal
// those of the last call the rule need not run, and comparing them is several times faster than
// running it. Each repeating caller owns one cache for one op. Any thread may use it; a thread that
// finds it locked runs the rule instead. The inputs are those of CallInputs, so lists of numbers
// are contiguous and equal to what the rule sees.
class ShapeCache {
 public:
  // True and `cached` filled in if the last call was equal; otherwise `cached` is unchanged.
  bool find(const Op& op, const TensorPointers& inputs, const Attributes& attributes,
            CachedCall& cached);
  void store(const Op& op, const TensorPointers& inputs, const Attributes& attributes,
             CachedCall& cached);
  // Does nothing if another call has been cached since.
  void store_call_cache(uint64_t number, CallCache call_cache);

 private:
  struct CachedInput {
    bool present = false;
    DType dtype = DType::Float32;
    Shape shape;
    std::vector<unsigned char> numbers;  // the bytes of a list that decides the output's shape
  };
  bool matches(const Op& op, const TensorPointers& inputs, const Attributes& attributes) const;

  std::mutex mutex_;  // only locked by try_lock
  bool known_ = false;
  uint64_t number_ = 0;  // of the call that is cached now
  SmallVector<CachedInput, 6> inputs_;
  std::vector<AttributeValue> attributes_;
  OutputDescriptions outputs_;
  std::shared_ptr<const DecidedAxes> decided_;
  bool unusual_ = false;
  CallCache call_cache_;
};

}  // namespace myops
