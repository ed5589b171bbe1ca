// Stores past the caches, for a result that they cannot hold (Plan::streams()). Only whole vectors
// are stored so: a cache line of which a part is stored in another way takes as long as dozens of
// others. So the last elements of a row wait here for the first ones of the next.
#pragma once

#include "elements.h"

namespace myops::resize::MYOPS_ISA {

template <class T>
class LineBuffer {
  static constexpr int64_t L = MYOPS_VECTOR_BYTES / sizeof(T);

 public:
  LineBuffer() = default;
  LineBuffer(const LineBuffer&) = delete;

  // Elements from `target` to the next whole vector.
  static MYOPS_INLINE int64_t before_vector(const T* target) { return (L - offset(target)) % L; }

  // The first `count` elements of a vector, no more than fill a vector of the result.
  template <class V>
  void add(T* target, const V& vector, int64_t count) {
    if (target != vector_ + filled_) {
      finish();
      first_ = filled_ = offset(target);
      vector_ = target - filled_;
    }
    store(waiting_ + filled_, vector);
    filled_ += count;
    if (filled_ < L) return;
    if (first_ > 0) return finish();  // the elements before them are not of this buffer
    stream(vector_, load(waiting_));
    vector_ += L, filled_ = 0;
  }

  // Stores what still waits. To be called at the end.
  void finish() {
    std::copy(waiting_ + first_, waiting_ + filled_, vector_ + first_);
    vector_ += filled_, first_ = filled_ = 0;
  }

 private:
  static int64_t offset(const T* target) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(target) / sizeof(T)) % L;
  }

  T* vector_ = nullptr;  // of the result
  int64_t first_ = 0;    // of its elements the first that is made here
  int64_t filled_ = 0;   // elements from vector_ on
  alignas(64) T waiting_[2 * L];
};

}  // namespace myops::resize::MYOPS_ISA
