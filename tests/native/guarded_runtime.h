// A runtime for tests of kernels: runs pieces of work in several orders; outputs lie between guard
// bytes.
#pragma once

#include <thread>
#include <vector>

#include "myops/op.h"

using namespace myops;

enum class Order { Forward, Backward, Threads };

constexpr uint8_t kGuard = 0xa5;
constexpr size_t kMargin = 64;

// Outputs lie between guard bytes and start at an odd multiple of the element size.
class TestRuntime final : public Runtime {
 public:
  explicit TestRuntime(Order order = Order::Forward) : order_(order) {}

  Tensor allocate(size_t, DType dtype, const Shape& shape, Layout layout) override {
    const size_t size = dtype_size(dtype);
    bytes = static_cast<size_t>(element_count(shape)) * size;
    memory.assign(bytes + 2 * kMargin + size, kGuard);
    start = kMargin + size;
    return Tensor(memory.data() + start, dtype, shape, layout);
  }

  void run(int64_t count, Task task, void* argument) override {
    if (order_ == Order::Forward) {
      for (int64_t i = 0; i < count; ++i) task(argument, i);
    } else if (order_ == Order::Backward) {
      for (int64_t i = count; i-- > 0;) task(argument, i);
    } else {
      std::vector<std::thread> threads;
      for (int64_t first = 0; first < 3; ++first) {
        threads.emplace_back([=] {
          for (int64_t i = first; i < count; i += 3) task(argument, i);
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
  }

  std::vector<uint8_t> result() const {
    return {memory.begin() + static_cast<long>(start),
            memory.begin() + static_cast<long>(start + bytes)};
  }
  bool guards_intact() const {
    for (size_t i = 0; i < memory.size(); ++i) {
      if ((i < start || i >= start + bytes) && memory[i] != kGuard) return false;
    }
    return true;
  }

 private:
  Order order_;
  std::vector<uint8_t> memory;
  size_t start = 0, bytes = 0;
};

// Between -1 and 1.
inline std::vector<float> numbers(size_t count, unsigned seed) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 8) / 8388608.0f - 1.0f;
  }
  return values;
}
