// How much memory one call may take, and scratch memory for kernels.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace myops {

// The bytes of an array of T whose length is the product of `counts`; SIZE_MAX, more than any
// budget, if that overflows.
template <class T, class... Counts>
size_t bytes_of(Counts... counts) {
  size_t bytes = sizeof(T);
  const bool fits = (!__builtin_mul_overflow(bytes, counts, &bytes) && ...);
  return fits ? bytes : SIZE_MAX;
}

// The most bytes that one call may take for outputs, copies of inputs and scratch memory together:
// the environment variable MYOPS_MAX_BYTES, else the memory of this machine or, where that is less,
// of the container that this process runs in. Decided at the first call; refuses a value that is
// not a number of bytes.
int64_t max_bytes();

// The memory that one call may still allocate. It is reduced before each allocation, so that an
// argument that needs too much memory is refused before anything is allocated.
class Budget {
 public:
  Budget() : limit_(max_bytes()), left_(limit_) {}

  // False, and the budget unchanged, if `bytes` exceed it.
  bool try_take(size_t bytes) {
    int64_t left = left_.load(std::memory_order_relaxed);
    do {
      if (bytes > static_cast<size_t>(left)) return false;
    } while (!left_.compare_exchange_weak(left, left - static_cast<int64_t>(bytes)));
    if (watched_) record_least(left - static_cast<int64_t>(bytes));
    return true;
  }
  // Throws "op: argument: got <got> (<bytes> bytes), expected at most ...".
  [[noreturn]] void refuse(const std::string& op, const std::string& argument,
                           const std::string& got, size_t bytes) const;
  void take(const std::string& op, const std::string& argument, const std::string& got,
            size_t bytes) {
    if (!try_take(bytes)) refuse(op, argument, got, bytes);
  }
  void give_back(size_t bytes) { left_ += static_cast<int64_t>(bytes); }

  // From now on, records the smallest number of bytes left, for reports (core/report.h).
  void watch() {
    watched_ = true;
    least_ = left_.load();
  }
  int64_t left() const { return left_; }
  int64_t least() const { return least_; }

 private:
  void record_least(int64_t left) {
    int64_t least = least_.load();
    while (left < least && !least_.compare_exchange_weak(least, left)) {
    }
  }

  const int64_t limit_;
  std::atomic<int64_t> left_;  // tasks of one call take scratch memory at the same time
  std::atomic<int64_t> least_{0};
  bool watched_ = false;
};

// 64-byte aligned memory for one task or one call; freed with the object.
class Scratch {
 public:
  // Outside a call (in Op::prepare), with a separate budget.
  explicit Scratch(size_t bytes);
  // Within a call, whose budget must outlive the object.
  Scratch(size_t bytes, const std::string& op, Budget& budget);

  template <class T>
  T* as() const {
    return static_cast<T*>(memory_.get());
  }

 private:
  struct Free {
    size_t bytes;
    Budget* budget;  // null: none
    void operator()(void* memory) const;
  };
  std::unique_ptr<void, Free> memory_;
};

// An array in scratch memory. Its elements are not initialised.
template <class T>
class ScratchArray {
  static_assert(std::is_trivially_copyable_v<T>, "scratch memory holds plain numbers and structs");

 public:
  ScratchArray(Scratch memory, int64_t size) : memory_(std::move(memory)), size_(size) {}

  int64_t size() const { return size_; }
  T* data() const { return memory_.as<T>(); }
  T* begin() const { return data(); }
  T* end() const { return data() + size_; }
  T& operator[](int64_t index) const { return data()[index]; }

 private:
  Scratch memory_;
  int64_t size_;
};

}  // namespace myops
