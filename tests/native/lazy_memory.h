// For tests of axes of more than 2^31 elements, and of tensors larger than the machine's memory:
// pages that the system maps at the first access.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checking.h"
#include "myops/op.h"

namespace lazy {

using namespace myops;

constexpr int64_t kWraps = int64_t{1} << 31;

// Zeros until the first write.
class Lazy {
 public:
  explicit Lazy(size_t bytes) : bytes_(std::max<size_t>(bytes, 1)) {
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ == MAP_FAILED)
      throw std::runtime_error(str("no address space for ", bytes, " bytes"));
    madvise(data_, bytes_, MADV_NOHUGEPAGE);
  }
  Lazy(const Lazy&) = delete;
  Lazy& operator=(const Lazy&) = delete;
  ~Lazy() { munmap(data_, bytes_); }
  void* get() const { return data_; }

 private:
  size_t bytes_;
  void* data_;
};

// Runs some of the pieces of work: the first, the last, and those around indices that could
// overflow.
class TestRuntime final : public Runtime {
 public:
  Tensor allocate(size_t index, DType dtype, const Shape& shape, Layout layout) override {
    if (memory.size() <= index) memory.resize(index + 1), outputs.resize(index + 1);
    memory[index] = std::make_unique<Lazy>(byte_count(shape, dtype));
    return outputs[index] = Tensor(memory[index]->get(), dtype, shape, layout);
  }
  void run(int64_t count, Task task, void* argument) override {
    constexpr int64_t kAll = 4096;
    std::set<int64_t> pieces;
    for (int64_t piece = 0; piece < std::min<int64_t>(count, kAll); ++piece) {
      if (count <= kAll || piece < 3) pieces.insert({piece, count - 1 - piece});
    }
    for (int64_t part = 1; part < 32; ++part) pieces.insert(count / 32 * part);
    for (const int64_t piece : pieces) task(argument, piece);
  }
  std::vector<Tensor> outputs;

 private:
  std::vector<std::unique_ptr<Lazy>> memory;
};

template <class Function>
void with_type(DType dtype, const Function& function) {
  dispatch<Half, BFloat16, float, double, uint8_t, int32_t, int64_t>(dtype, function);
}

inline double read(const Tensor& tensor, int64_t offset) {
  double number = 0;
  with_type(tensor.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      number = static_cast<float>(tensor.as<T>()[offset]);
    } else {
      number = static_cast<double>(tensor.as<T>()[offset]);
    }
  });
  return number;
}

// An integer that depends on the index.
inline double mark(const Tensor& tensor, int64_t offset) {
  const auto hash = static_cast<uint64_t>(offset) * 0x9e3779b97f4a7c15u >> 32;
  const auto value = static_cast<double>(hash % 200 + 1);
  with_type(tensor.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    tensor.as<T>()[offset] = static_cast<T>(static_cast<float>(value));
  });
  return value;
}

inline std::string refusal_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// A runtime whose outputs are lazy, too; a call that is refused must not touch them.
inline void limit_calls() { setenv("MYOPS_MAX_BYTES", "120000000000", 1); }

inline void expect_little_memory() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  expect(used.ru_maxrss < 1 << 20,
         str("memory: got ", used.ru_maxrss, " KiB, expected below 1 GiB"));
}

}  // namespace lazy
