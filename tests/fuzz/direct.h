// Calls of invoke(), as torch and NumPy make them: outputs in memory with garbage, pieces of work
// in any order, strided inputs.
#pragma once

#include <vector>

#include "calls.h"

namespace fuzz {

enum class Order : uint8_t { Forward, Backward, Threads };

class Direct final : public myops::Runtime {
 public:
  Direct(Order order, uint8_t fill) : order_(order), fill_(fill) {}

  myops::Tensor allocate(size_t, myops::DType dtype, const myops::Shape& shape,
                         myops::Layout layout) override;
  void run(int64_t count, Task task, void* argument) override;

  std::vector<std::vector<uint8_t>> memory;
  myops::Tensors outputs;

 private:
  Order order_;
  uint8_t fill_;
};

// Memory of exactly the elements that the strides reach, from the lowest to the highest.
struct Spread {
  std::vector<uint8_t> bytes;
  myops::Tensor tensor;

  Spread(const Argument& argument, const myops::Shape& strides);
  // The elements in order. Those of axes without a stride are all the last one.
  std::vector<uint8_t> in_order() const;
};

struct Strides {
  myops::Shape steps;
  const char* kind;
};
Strides any_strides(Bytes& bytes, const myops::Shape& shape, myops::Access access);

myops::Attributes attributes_of(const Call& call);

// Empty when the call was accepted.
std::string direct_call(const Call& call, const myops::Tensors& inputs, Direct& runtime);

// Whether shapes, dtypes and bits are equal. All NaNs count as equal, because the compiler chooses
// which of two NaNs a sum keeps.
bool same(const myops::Tensor& a, const myops::Tensor& b);

// A sentence about the first element that differs too much from the expected one; empty if none
// does.
// `compared` counts the elements that were compared.
struct Expected;
std::string compare(const myops::Tensor& got, const Expected& expected, int64_t& compared);

}  // namespace fuzz
