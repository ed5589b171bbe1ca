// Random calls of the ops that have kernels for CUDA.
#pragma once

#include <string>
#include <vector>

#include "device_runtime.h"

namespace fake_cuda {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  uint64_t bits() {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return state_ * 0x2545f4914f6cdd1du >> 11;
  }
  int64_t below(int64_t count) {
    return static_cast<int64_t>(bits() % static_cast<uint64_t>(count));
  }
  int64_t from(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool chance(int64_t one_in) { return below(one_in) == 0; }
  double real() { return static_cast<double>(bits() % 2000001) / 1000000 - 1; }  // from -1 to 1
  template <class T>
  T one_of(const std::vector<T>& items) {
    return items[static_cast<size_t>(below(static_cast<int64_t>(items.size())))];
  }

 private:
  uint64_t state_;
};

// One call; it owns the memory of its inputs.
struct Case {
  const Op* op = nullptr;
  Attributes attributes;
  Tensors inputs;
  std::string text;

  explicit Case(const char* name) : op(find_op(name)), attributes(op->attributes), text(name) {}
  void set(const std::string& name, AttributeValue value);
  // A tensor of random numbers; `spread`: their largest magnitude. `layout` may add gaps.
  void add_numbers(Random& random, DType dtype, const Shape& shape, double spread = 1,
                   bool strided = false);
  // The same of whole numbers from -most to most, contiguous.
  void add_integers(Random& random, DType dtype, const Shape& shape, int64_t most);
  // Random bytes, often the largest and the smallest; of dtype uint8 or int8.
  void add_bytes(Random& random, DType dtype, const Shape& shape, Layout layout);
  void add_list(const std::vector<double>& numbers);
  void add_list(const std::vector<int64_t>& numbers);
  void add_nothing() { inputs.emplace_back(); }

  Blocks memory;
};

std::unique_ptr<Case> random_add(Random& random);
// Of resize, or of resize_backward.
std::unique_ptr<Case> random_resize(Random& random, bool backward);
// Of deform_conv2d, its gradient, or the gradient of that: 0, 1 or 2.
std::unique_ptr<Case> random_deform(Random& random, int order);
std::unique_ptr<Case> random_deform_int8(Random& random);
// Of deform_conv2d or its gradient, with many outputs, only small integers, at integer positions.
std::unique_ptr<Case> integer_deform(Random& random, int order);

}  // namespace fake_cuda
